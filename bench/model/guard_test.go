package model

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A guarded is a Guard that implements cache.
type guarded struct {
	g      *weir.Guard[int, int]
	tagged bool // whether loads set tags
}

func (c guarded) get(ctx context.Context, key int) (int, error) { return c.g.Get(ctx, key) }

func (c guarded) getMany(ctx context.Context, wanted []int) map[int]int {
	values := make(map[int]int)
	for key, r := range c.g.GetMany(ctx, wanted) {
		if r.Err == nil {
			values[key] = r.Value
		}
	}
	return values
}

func (c guarded) set(ctx context.Context, key, value int) {
	_ = c.g.SetEntry(ctx, key, weir.Entry[int]{Value: value, Tags: []string{tagOf(key)}})
}

func (c guarded) forget(ctx context.Context, key, how int) {
	switch {
	case how == 0, how == 1 && !c.tagged:
		_ = c.g.Invalidate(ctx, key)
	case how == 1:
		_ = c.g.InvalidateTags(ctx, tagOf(key))
	case how == 2:
		_ = c.g.Expire(ctx, key) // without stale windows, an expired entry is not served
	default:
		_ = c.g.InvalidateAll(ctx)
	}
}

func tagOf(key int) string { return fmt.Sprintf("key-%d", key) }

// sources returns the ways to write a load, each of which uses different code. Only
// LoadEntry and LoadEntries set tags on their entries.
func sources(src *source) []weir.Source[int, int] {
	one := func(ctx context.Context, key int, _ weir.Previous[int]) (weir.Entry[int], error) {
		v, err := src.load(ctx, key)
		return weir.Entry[int]{Value: v, Tags: []string{tagOf(key)}}, err
	}
	many := func(ctx context.Context, keys []int, _ []weir.Previous[int]) (map[int]weir.Entry[int], error) {
		values, err := src.look(ctx, keys)
		entries := make(map[int]weir.Entry[int])
		for key, v := range values {
			entries[key] = weir.Entry[int]{Value: v, Tags: []string{tagOf(key)}}
		}
		return entries, err
	}
	return []weir.Source[int, int]{
		{LoadEntry: one},
		{LoadEntry: one, LoadEntries: many},
		{LoadEntries: many},
		{Load: src.load, LoadMany: src.look},
		{LoadMany: src.look},
	}
}

// TestE6HistoriesAreLinearizable checks a Guard against a register. With values that
// live forever, every read returns the last written value, or that of an overlapping
// write, whatever the loads do. So no invalidation is lost (E6), no outdated result
// comes back (F4, B1), and no load gets between a commit and the table (F5).
func TestE6HistoriesAreLinearizable(t *testing.T) {
	for seed := range histories.Seeds(t, 40, 400) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(seed)
			g, tagged := newGuard(t, src, seed)
			history := play(seed, src, guarded{g, tagged}, 6, 25)
			check(t, seed, history)
			closeGuard(t, g)
		})
	}
}

// newGuard returns a Guard whose features depend on the seed.
func newGuard(t *testing.T, src *source, seed uint64) (g *weir.Guard[int, int], tagged bool) {
	o := weir.Options{TTL: 1000 * time.Hour, LoadTimeout: 40 * time.Millisecond, MaxStuck: 1000}
	switch seed % 4 {
	case 1:
		o.AbandonGrace = 3 * time.Millisecond
	case 2:
		o.AbandonGrace = weir.Never
	case 3:
		limiter, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		o.Limiter = limiter
	}
	if seed%3 == 0 {
		o.RefreshBeta = math.MaxFloat64 // every hit on a loaded value starts a refresh, which writes can overtake
		o.RefreshRetry = time.Millisecond
	}
	kinds := sources(src)
	kind := int(seed / 4 % uint64(len(kinds)))
	if seed/12%2 == 1 && kind > 0 { // gather the misses
		o.Batch = weir.Batching{MaxSize: 2 + int(seed%2), Linger: time.Duration(seed%3) * time.Millisecond, MaxParallel: 1 + int(seed%5)}
	}
	g, err := weir.NewFrom(kinds[kind], o)
	if err != nil {
		t.Fatal(err)
	}
	return g, kinds[kind].LoadEntry != nil || kinds[kind].LoadEntries != nil
}

func check(t *testing.T, seed uint64, history []porcupine.Operation) {
	t.Helper()
	if len(history) == 0 {
		t.Fatalf("seed %d: nothing happened", seed)
	}
	if !porcupine.CheckOperations(register, history) {
		t.Errorf("seed %d: the history of %d calls has no explanation", seed, len(history))
	}
}

// closeGuard also waits for loads that ignore their context, because no goroutine may
// be left in the bubble.
func closeGuard(t *testing.T, g *weir.Guard[int, int]) {
	t.Helper()
	if err := g.Close(context.Background()); err != nil {
		t.Errorf("Close = %v; want nil", err)
	}
	if s := g.Stats(); s.Flights+s.Running+s.Stuck+s.Refreshing != 0 {
		t.Errorf("after Close: %+v; want no flight, no load, nothing stuck", s)
	}
}
