package weir_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

type codec struct{ fleet.JSON }

// M4: each pair of options that would leave one of them without an effect is an error, or an
// advice, as the reference says; no other pair is in its table.
func TestM4OptionsThatContradictEachOther(t *testing.T) {
	load := func(context.Context, string) (int, error) { return 1, nil }
	none := weir.Source[string, int]{Load: load}
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	inTier := func(c fleet.Config) weir.Fleet {
		c.Tier, c.Namespace = tier, "pairs"
		return weir.Fleet{Config: c}
	}
	one := weir.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1}))
	perSecond := weir.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 1}))
	var budget limit.Limiter = weir.Must(quota.NewBudget(tier, quota.BudgetOptions{Rate: fleet.Rate{Permits: 1, Per: time.Second}, OnFailure: quota.FailOpen}))
	rows := []struct {
		pair string
		o    weir.Options
		src  weir.Source[string, int]
	}{
		{"`AbandonGrace` | a shorter `LoadTimeout`", weir.Options{AbandonGrace: time.Minute}, none},
		{"`AbandonGrace` | a shorter `LoadTimeout`", weir.Options{AbandonGrace: 3 * sec, LoadTimeout: 2 * sec}, none},
		{"`Batch` | no `LoadMany` or `LoadEntries`", weir.Options{Batch: weir.Batching{MaxSize: 2}}, none},
		{"`Batch.Linger`, `Batch.MaxParallel` | no `Batch.MaxSize`", weir.Options{Batch: weir.Batching{Linger: sec}}, none},
		{"`Batch.Linger` | a `SoftTimeout` that is not longer", weir.Options{TTL: time.Hour, StaleIfError: time.Hour, SoftTimeout: sec, Batch: weir.Batching{MaxSize: 2, Linger: sec}}, weir.Source[string, int]{LoadMany: rig.Singly(load)}},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{TTL: 60}, none},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{LoadTimeout: 30}, none},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{TTL: time.Hour, StaleIfError: 60}, none},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{AbandonGrace: 1}, none},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{MaxRetryAfter: 1}, none},
		{"a duration below 1 ms (`Linger`: 1 µs) | –", weir.Options{NegativeTTL: 999 * time.Microsecond}, none},
		{"`FailureMemo`: `Max` | no `Initial`, or a longer one", weir.Options{FailureMemo: weir.FailureMemo{Overload: weir.Backoff{Max: sec}}}, none},
		{"`FailureMemo`: `Max` | no `Initial`, or a longer one", weir.Options{FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: 2 * sec, Max: sec}}}, none},
		{"`Fleet`: any field | no `Tier`", weir.Options{Fleet: weir.Fleet{Config: fleet.Config{Cooling: sec}}}, none},
		{"`Fleet` | a negative `LoadTimeout`", weir.Options{LoadTimeout: -1, Fleet: inTier(fleet.Config{})}, none},
		{"`Fleet.Cooling` | a shorter `TTL`", weir.Options{TTL: sec, Fleet: inTier(fleet.Config{Cooling: 2 * sec})}, none},
		{"`Fleet.MaxCooling` | a longer `Cooling`", weir.Options{TTL: time.Hour, Fleet: inTier(fleet.Config{Cooling: 2 * sec, MaxCooling: sec})}, none},
		{"`Fleet.MaxKeep` | a longer `TTL`", weir.Options{TTL: time.Hour, Fleet: inTier(fleet.Config{MaxKeep: time.Minute})}, none},
		{"`HotKeys` | a smaller `MaxEntries`", weir.Options{TTL: time.Hour, HotKeys: 10, MaxEntries: 1}, none},
		{"`Limiter`, `Observer`, `Tier` or `Codec`: a nil pointer | –", weir.Options{Limiter: (*limit.RateLimiter)(nil)}, none},
		{"`Limiter`, `Observer`, `Tier` or `Codec`: a nil pointer | –", weir.Options{Limiter: limit.All(limit.PerCall(one), (*limit.Concurrency)(nil))}, none},
		{"`Limiter`, `Observer`, `Tier` or `Codec`: a nil pointer | –", weir.Options{Observer: (*rig.Recorder)(nil)}, none},
		{"`Limiter`, `Observer`, `Tier` or `Codec`: a nil pointer | –", weir.Options{Fleet: weir.Fleet{Config: fleet.Config{Tier: (*fleet.Memory)(nil), Namespace: "x"}}}, none},
		{"`Limiter`, `Observer`, `Tier` or `Codec`: a nil pointer | –", weir.Options{Fleet: weir.Fleet{Config: fleet.Config{Tier: tier, Namespace: "x"}, Codec: (*codec)(nil)}}, none},
		{"`Limiter`: `limit.All` | a limiter of rates after one of concurrency", weir.Options{Limiter: limit.All(one, perSecond)}, none},
		{"`Limiter`: `limit.All` | a limiter of rates after one of concurrency", weir.Options{Limiter: limit.All(limit.All(perSecond, one), limit.PerCall(budget))}, none},
		{"`LoadTimeout` | a shorter `TTL`", weir.Options{TTL: sec, LoadTimeout: time.Minute}, none},
		{"`MaxEntries` | `MaxWeight`", weir.Options{MaxEntries: 1, MaxWeight: 1}, weir.Source[string, int]{Load: load, Weigh: func(string, int) uint32 { return 1 }}},
		{"`MaxWeight` | no `Weigh`, `LoadEntry` or `LoadEntries`", weir.Options{MaxWeight: 10}, none},
		{"`NegativeTTL` | a shorter `TTL`", weir.Options{TTL: sec, NegativeTTL: time.Minute}, none},
		{"`RefreshAhead`, `RefreshBeta` | neither `TTL` nor `NegativeTTL`", weir.Options{RefreshAhead: 0.2}, none},
		{"`RefreshAhead`, `RefreshBeta` | neither `TTL` nor `NegativeTTL`", weir.Options{RefreshBeta: 1}, none},
		{"`RefreshBeta` | `RefreshAhead`", weir.Options{TTL: sec, RefreshBeta: 1, RefreshAhead: 0.2}, none},
		{"`RefreshJitter` | no `RefreshAhead`", weir.Options{TTL: sec, RefreshJitter: 0.2}, none},
		{"`RefreshRetry` | refreshes, and a shorter `TTL`", weir.Options{TTL: sec, RefreshAhead: 0.2, RefreshRetry: time.Minute}, none},
		{"`RefreshRetryMax` | a longer `RefreshRetry`", weir.Options{RefreshRetry: time.Minute, RefreshRetryMax: sec}, none},
		{"`ReportEvictions` | no `Observer`", weir.Options{ReportEvictions: true}, none},
		{"`SoftTimeout` | no `StaleIfError`, or a shorter `LoadTimeout`", weir.Options{TTL: time.Hour, SoftTimeout: sec}, none},
		{"`SoftTimeout` | no `StaleIfError`, or a shorter `LoadTimeout`", weir.Options{TTL: time.Hour, StaleIfError: time.Hour, SoftTimeout: time.Minute}, none},
		{"`StaleIfError` | a longer `StaleWhileRevalidate`", weir.Options{TTL: time.Hour, StaleIfError: sec, StaleWhileRevalidate: time.Minute}, none},
		{"`TTLJitter`, stale windows | no `TTL`", weir.Options{TTLJitter: 0.1}, none},
		{"`TTLJitter`, stale windows | no `TTL`", weir.Options{StaleWhileRevalidate: sec}, none},
		{"`BatchScope` | no `Batch`", weir.Options{}, weir.Source[string, int]{Load: load, BatchScope: func(context.Context, string) any { return 1 }}},
		{"`Weigh` | no `MaxWeight`", weir.Options{}, weir.Source[string, int]{Load: load, Weigh: func(string, int) uint32 { return 1 }}},
	}
	page, err := os.ReadFile("docs/reference/option-pairs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "contradict each other")
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.pair] = true
		g, err := weir.NewFrom(row.src, row.o)
		advice := row.o.Advice()
		if err == nil {
			_ = g.Close(t.Context())
		}
		fault := new(weir.OptionError)
		got := "nothing"
		switch {
		case errors.As(err, &fault) && len(optionFaults(err)) == 1:
			got = "error"
		case err == nil && len(advice) == 1:
			got = "advice"
		}
		if !strings.Contains(table, "| "+row.pair+" | "+got+" |\n") {
			t.Errorf("%s: %s (%v, %q), which is not in the reference", row.pair, got, err, advice)
		}
	}
	for line := range strings.Lines(table) {
		cut := strings.LastIndex(strings.TrimSuffix(line, " |\n"), " | ")
		if pair, ok := strings.CutPrefix(line[:max(cut, 0)], "| "); ok && pair != "Option | With" && !seen[pair] {
			t.Errorf("the reference has a pair without a case: %s", pair)
		}
	}
	for name, o := range map[string]weir.Options{
		"a rate before a concurrency": {Limiter: limit.All(perSecond, budget, one)},
		"grace as long as a load":     {AbandonGrace: 30 * time.Second},
		"grace without a load's end":  {AbandonGrace: time.Hour, LoadTimeout: -1},
		"never":                       {AbandonGrace: weir.Never},
		"a millisecond":               {TTL: ms, Batch: weir.Batching{}},
		"the default cooling":         {TTL: 100 * ms, Fleet: inTier(fleet.Config{})},
		"an empty limiter":            {Limiter: limit.All()},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v; want no fault", name, err)
		}
	}
}
