package console_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirtest"
)

// guardOf returns a Guard that is closed when the test ends.
func guardOf[K comparable](t testing.TB, load func(context.Context, K) (string, error), o weir.Options) *weir.Guard[K, string] {
	t.Helper()
	g, err := weir.New(load, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

func sourceOf(t testing.TB, all ...weir.Inspector) console.Source {
	t.Helper()
	s, err := console.Guards(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestC5_UnitsEqualTheStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		if err != nil {
			t.Fatal(err)
		}
		var l weirtest.Loader[string, string]
		l.Func = func(ctx context.Context, key string) (string, error) {
			switch key {
			case "none":
				return "", weir.ErrNotFound
			case "bad":
				return "", errors.New("broken")
			case "panic":
				panic("broken")
			}
			time.Sleep(10 * time.Millisecond)
			return key, nil
		}
		g := guardOf(t, l.Load, weir.Options{
			Name: "rows", TTL: time.Minute, StaleWhileRevalidate: time.Minute, NegativeTTL: time.Minute, Limiter: db,
		})
		s := sourceOf(t, g)
		asked := 0
		ask := func(keys ...string) {
			done := make(chan bool)
			for _, key := range keys {
				asked++
				go func() { g.Get(t.Context(), key); done <- true }()
				synctest.Wait()
			}
			for range keys {
				<-done
			}
		}
		ask("a", "a", "a", "b") // one loads, two join, and one is refused
		ask("a")
		ask("a")
		ask("none")
		ask("none")
		ask("bad")
		ask("panic")
		time.Sleep(90 * time.Second)
		ask("a") // stale, and refreshed
		time.Sleep(time.Second)

		stats := g.Stats()
		u := s.Snapshot().Units[0]
		if want := (console.Avoided{Hits: 2, Stale: 1, Negative: 1, Joined: 2}); u.Avoided != want || want.Hits != stats.Hits || want.Joined != stats.Joins {
			t.Errorf("avoided %+v; want %+v as in %+v", u.Avoided, want, stats)
		}
		if u.Requests != uint64(asked) {
			t.Errorf("%d requests; want %d", u.Requests, asked)
		}
		for name, n := range map[string][3]uint64{ // shown, in the Stats, and expected
			"calls": {u.Calls, stats.Loads, 5}, "refreshes": {u.Refreshes, stats.Refreshes, 1}, "failed": {u.Failed, stats.LoadFailures, 2},
			"timeouts": {u.Timeouts, stats.LoadTimeouts, 0}, "panics": {u.Panics, stats.Panics, 1}, "refused": {u.Refused.Limit, stats.Refusals, 1},
			"stuck": {u.Refused.Stuck, stats.StuckRefusals, 0}, "abandoned": {u.Abandoned, stats.Abandoned, 0}, "stale on error": {u.StaleOnError, stats.StaleOnError, 0},
			"entries": {uint64(u.Entries), uint64(stats.Entries), 2}, "loads timed": {u.CallTime.Count, stats.Loads, 5}, "waits timed": {u.WaitTime.Count, g.WaitTimes().Count, 7},
		} {
			if n[0] != n[1] || n[0] != n[2] {
				t.Errorf("%s: %d shown, %d in the Stats; want %d", name, n[0], n[1], n[2])
			}
		}
		if u.Name != "rows" || u.Kind != "guard" || u.Limit != "rows" || u.Flights+u.Running+u.Refreshing+u.Waiting+u.Stuck != 0 {
			t.Errorf("unit %+v; want an idle Guard", u)
		}

		l.Block("slow") // a load in flight
		for range 3 {
			go g.Get(t.Context(), "slow")
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		d, there := s.Detail("rows", 10)
		if u := d.Unit; !there || u.Flights != 1 || u.Running != 1 || u.Waiting != 2 || len(d.Flights) != 1 || d.Flights[0].Age != 5*time.Second || d.Flights[0].Joiners != 3 {
			t.Errorf("detail %+v; want a flight of 5 s with 3 callers, two of which joined", d)
		}
		if d.Limit == nil || d.Limit.InUse != 1 || d.Limit.Limit != 1 || d.Limit.Admitted != db.Stats().Admitted || d.Limit.Refused["queue full"] != 1 {
			t.Errorf("limit %+v; want that of %+v", d.Limit, db.Stats())
		}
		if d.Entries == nil || d.Entries.Fresh != 1 || d.Entries.Dead != 1 {
			t.Errorf("entries %+v; want one fresh and one expired entry", d.Entries)
		}
		if _, there := s.Detail("none", 10); there {
			t.Error("Detail of an unknown unit reports true")
		}
		l.Release("slow")
	})
}

func TestC5_GetManyAndHotKeys(t *testing.T) {
	g := weir.Must(weir.NewFrom(weir.Source[int, string]{LoadMany: func(_ context.Context, keys []int) (map[int]string, error) {
		m := map[int]string{}
		for _, key := range keys {
			m[key] = "x"
		}
		return m, nil
	}}, weir.Options{Name: "many", TTL: time.Minute, HotKeys: 10}))
	defer g.Close(t.Context())
	s := sourceOf(t, g)
	for range 2 {
		g.GetMany(t.Context(), []int{1, 2, 3})
	}
	if u := s.Snapshot().Units[0]; u.Requests != 6 || u.Calls != 1 || u.Avoided.Hits != 3 {
		t.Errorf("unit %+v; want 6 requests, a call, 3 hits", u)
	}
	if hot, there := s.HotKeys("many", 2); !there || hot.Window == 0 || len(hot.ByTraffic) > 2 {
		t.Errorf("hot keys %+v, %v; want those of the Guard", hot, there)
	}
	if _, there := s.HotKeys("none", 2); there {
		t.Error("HotKeys of an unknown unit reports true")
	}
}

func echo(_ context.Context, key string) (string, error) { return key, nil }

func TestGuardsNames(t *testing.T) {
	a, b, none := guardOf(t, echo, weir.Options{Name: "a"}), guardOf(t, echo, weir.Options{Name: "b"}), guardOf(t, echo, weir.Options{})
	s, err := console.Guards(a, nil, none, b, a, b)
	want := "console: Guards: number 2 is nil\n" +
		"console: Guards: number 3 has no name; want a weir.Options.Name\n" +
		"console: Guards: numbers 1 and 5 are both named \"a\"; want different names\n" +
		"console: Guards: numbers 4 and 6 are both named \"b\"; want different names"
	if err == nil || err.Error() != want || s != nil {
		t.Errorf("Guards = %v, %v; want %s", s, err, want)
	}
	now := sourceOf(t, b, a).Snapshot()
	if len(now.Units) != 2 || now.Units[0].Name != "a" || now.Units[1].Name != "b" {
		t.Errorf("units %v; want them sorted by name", now.Units)
	}
	if p := now.Process; p.PID == 0 || p.Go == "" || p.State != "ready" || p.Memory == 0 || p.Goroutines == 0 || p.Started.IsZero() || now.At.IsZero() {
		t.Errorf("process %+v; want this process", p)
	}
	if now := sourceOf(t).Snapshot(); len(now.Units) != 0 || now.Tier != nil {
		t.Errorf("snapshot without Guards: %+v; want no units", now)
	}
}

func TestGuardsLimits(t *testing.T) {
	must := func(l limit.Limiter, err error) limit.Limiter {
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	shared := must(limit.NewAdaptive(limit.AdaptiveOptions{Name: "db", Initial: 7}))
	quota := must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 50}))
	fixed := must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 3}))
	namesake := must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 4}))
	third := must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 5}))
	free := must(limit.NewRateLimiter(limit.RateOptions{Name: "free", PerSecond: math.Inf(1)}))
	elsewhere := incomparable{func() {}}

	with := func(name string, l limit.Limiter) weir.Inspector {
		return guardOf(t, echo, weir.Options{Name: name, Limiter: l})
	}
	s := sourceOf(t,
		with("a", shared), with("b", limit.All(quota, shared)), with("c", limit.All(quota, limit.All(free, fixed))),
		with("d", nil), with("e", elsewhere), with("f", namesake), with("g", third), with("h", quota))
	now := s.Snapshot()
	var got []string
	for _, l := range now.Limits {
		got = append(got, fmt.Sprint(l.Name, " is ", l.Kind, " ", l.Limit))
	}
	want := "b is rate 50|c is fixed 3|db is adaptive 7|db fixed is fixed 4|db fixed 2 is fixed 5|free is rate +Inf"
	if strings.Join(got, "|") != want {
		t.Errorf("limits %q; want %s", got, want)
	}
	got = nil
	for _, u := range now.Units {
		got = append(got, u.Name+":"+u.Limit)
	}
	if want := "a:db|b:db|c:c|d:|e:|f:db fixed|g:db fixed 2|h:b"; strings.Join(got, "|") != want {
		t.Errorf("limits of units %q; want %s", got, want)
	}
	if body := get("/api/snapshot").on(newConsole(t, console.Options{Source: s})).Body.String(); !strings.Contains(body, `"name":"free","kind":"rate","limit":0`) {
		t.Errorf("%s; want 0 for no limit", body)
	}
}

// A foreign limiter that cannot even be compared.
type incomparable struct{ fn func() }

func (incomparable) Acquire(context.Context) (limit.Permit, error) { return limit.Permit{}, nil }

func TestC7_GuardsForget(t *testing.T) {
	load := func(_ context.Context, key string, _ weir.Previous[string]) (weir.Entry[string], error) {
		return weir.Entry[string]{Value: key, Tags: []string{"tag of " + key}}, nil
	}
	newGuard := func(name string) *weir.Guard[string, string] {
		g := weir.Must(weir.NewFrom(weir.Source[string, string]{LoadEntry: load}, weir.Options{Name: name, TTL: time.Hour}))
		t.Cleanup(func() { _ = g.Close(context.Background()) })
		g.Get(t.Context(), "a")
		g.Get(t.Context(), "b")
		return g
	}
	one, two := newGuard("one"), newGuard("two")
	c := newConsole(t, console.Options{Source: sourceOf(t, one, two)})
	has := func(g *weir.Guard[string, string], key string) bool { _, ok := g.Peek(key); return ok }
	if got := post("/api/purge", `{"unit": "one", "tags": ["tag of a", "tag of c"]}`).on(c); got.Code != 200 || has(one, "a") || !has(one, "b") || !has(two, "a") {
		t.Errorf("purge by tag: %d %s; one has a: %v, b: %v, two has a: %v; want only a gone, from one", got.Code, got.Body, has(one, "a"), has(one, "b"), has(two, "a"))
	}
	if got := post("/api/purge", `{"unit": "two", "all": true}`).on(c); got.Code != 200 || has(two, "a") || has(two, "b") || !has(one, "b") {
		t.Errorf("purge of all: %d %s; want two empty, and one unchanged", got.Code, got.Body)
	}
	if got := post("/api/purge", `{"unit": "three", "all": true}`).on(c); got.Code != 404 || !has(one, "b") {
		t.Errorf("purge of an unknown unit: %d %s; want 404", got.Code, got.Body)
	}
}

func TestGuardsTier(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	in := func(name string) *weir.Guard[string, string] {
		return guardOf(t, echo, weir.Options{Name: name, TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: m}}})
	}
	a, b := in("a"), in("b")
	s := sourceOf(t, a, b, guardOf(t, echo, weir.Options{Name: "alone"}))
	a.Get(t.Context(), "x")
	b.Get(t.Context(), "x")
	sum := a.Stats().Fleet.Acquires + b.Stats().Fleet.Acquires
	if tier := s.Snapshot().Tier; tier == nil || tier.Acquires != sum || tier.Granted != 2 || sum < 2 {
		t.Errorf("tier %+v; want the sum over both Guards, %d acquires", tier, sum)
	}
}

// A tripped Tier is reported as an open breaker.
type tripped struct{ fleet.Tier }

func (tripped) Abilities() fleet.Abilities {
	return fleet.Abilities{State: func() fleet.BreakerState { return fleet.BreakerState{Open: true} }}
}

// A Guard without its Tier is reported, even if the other Guards have theirs.
func TestGuardsTierIsOpenIfOneIs(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	in := func(name string, tier fleet.Tier) *weir.Guard[string, string] {
		return guardOf(t, echo, weir.Options{Name: name, TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}})
	}
	well, alone := in("well", m), in("alone", tripped{m})
	if well.Stats().Fleet.Open || !alone.Stats().Fleet.Open {
		t.Errorf("Stats().Fleet.Open = %v and %v; want false and true", well.Stats().Fleet.Open, alone.Stats().Fleet.Open)
	}
	well.Get(t.Context(), "x")
	if tier := sourceOf(t, well).Snapshot().Tier; tier == nil || tier.Open {
		t.Errorf("tier of the healthy Guard: %+v; want it closed", tier)
	}
	for _, both := range [][]weir.Inspector{{well, alone}, {alone, well}} {
		if tier := sourceOf(t, both...).Snapshot().Tier; tier == nil || !tier.Open {
			t.Errorf("tier of both: %+v; want it open", tier)
		}
	}
}

// A Guard's cost is that of its Stats; without a Source.Cost there is none.
func TestC5_CostOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func(context.Context, string) (string, error) { return "value", nil }
		free := guardOf(t, load, weir.Options{Name: "free", TTL: time.Minute})
		priced := weir.Must(weir.NewFrom(weir.Source[string, string]{Load: load, Cost: func(string) int { return 7 }}, weir.Options{Name: "priced", TTL: time.Minute}))
		t.Cleanup(func() { _ = priced.Close(context.WithoutCancel(t.Context())) })
		for range 3 {
			for _, g := range []*weir.Guard[string, string]{free, priced} {
				if _, err := g.Get(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
			}
		}
		units := sourceOf(t, free, priced).Snapshot().Units
		if units[0].Cost != nil || units[1].Cost == nil || *units[1].Cost != (console.Cost{Spent: 7, Hits: 14}) {
			t.Errorf("cost = %+v and %+v; want none, and 7 spent and 14 avoided", units[0].Cost, units[1].Cost)
		}
	})
}
