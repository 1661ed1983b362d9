package allocations_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirtest"
)

// newGuard returns a Guard whose every load finds 1, after having taken some time.
func newGuard(t *testing.T, o weir.Options, took time.Duration) *weir.Guard[string, int] {
	t.Helper()
	g := weir.Must(weir.NewFrom(weir.Source[string, int]{
		LoadEntry: func(context.Context, string, weir.Previous[int]) (weir.Entry[int], error) {
			return weir.Entry[int]{Value: 1, Tags: []string{"t"}}, nil
		},
		LoadEntries: func(_ context.Context, keys []string, _ []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			entries := make(map[string]weir.Entry[int], len(keys))
			for start := time.Now(); time.Since(start) < took; { // a sleep is not exact enough
			}
			for _, key := range keys {
				entries[key] = weir.Entry[int]{Value: 1}
			}
			return entries, nil
		},
	}, o))
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "k" + strconv.Itoa(i)
	}
	return all
}

// none fails if a call allocates.
func none(t *testing.T, name string, runs int, call func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(runs, call); n != 0 {
		t.Errorf("%s: %v allocations a hit; want 0", name, n)
	}
}

// E2, O2: a hit that draws allocates nothing.
func TestE2HitThatDrawsAllocatesNothing(t *testing.T) {
	inside := float64(time.Hour) / float64(time.Millisecond) / 20 // each hit draws
	for _, beta := range []float64{1, inside} {
		g := newGuard(t, weir.Options{TTL: time.Hour, RefreshBeta: beta}, time.Millisecond)
		ctx := t.Context()
		for key, r := range g.GetMany(ctx, keys(100)) {
			if r.Err != nil {
				t.Fatalf("GetMany: %s: %v", key, r.Err)
			}
		}
		none(t, "Get", 1000, func() { g.Get(ctx, "k1") })
		none(t, "GetResult", 1000, func() { g.GetResult(ctx, "k1") })
	}
}

// C10: a hit allocates nothing, with an Observer and hot keys on.
func TestC10_HitAllocatesNothing(t *testing.T) {
	g := newGuard(t, weir.Options{TTL: 100 * time.Hour, RefreshAhead: 0.2, HotKeys: 10, Observer: &weirtest.Recorder{}}, 0)
	ctx, all := t.Context(), keys(1000)
	g.GetMany(ctx, all)
	i := 0
	next := func() string { i++; return all[i%len(all)] }
	none(t, "Get", 20_000, func() { g.Get(ctx, next()) })
	none(t, "GetResult", 20_000, func() { g.GetResult(ctx, next()) })
	if h := g.HotKeys(10); len(h.ByTraffic) != 10 {
		t.Errorf("%d hot keys; want 10", len(h.ByTraffic))
	}
}

// O2: a hit allocates nothing, observed or not, with all instants and Stats on; a bulk hit
// allocates nothing per key.
func TestO2HitAllocatesNothing(t *testing.T) {
	for _, obs := range []weir.Observer{nil, &weirtest.Recorder{}} {
		o := weir.Options{
			TTL: 100 * time.Hour, RefreshAhead: 0.2, RefreshJitter: -1, Observer: obs,
			StaleWhileRevalidate: 50 * time.Second, StaleIfError: 400 * time.Second,
		}
		o.FailureMemo.Transient.Initial = time.Second
		g := newGuard(t, o, 0)
		ctx := t.Context()
		g.Get(ctx, "k")
		none(t, "Get", 1000, func() { g.Get(ctx, "k") })
		none(t, "GetResult", 1000, func() { g.GetResult(ctx, "k") })
		none(t, "Peek", 1000, func() { g.Peek("k") })
		few, many := keys(8), keys(1000)
		g.GetMany(ctx, many)
		a := testing.AllocsPerRun(100, func() { g.GetMany(ctx, few) })
		b := testing.AllocsPerRun(100, func() { g.GetMany(ctx, many) })
		if a > 4 || b > 20 {
			t.Errorf("GetMany: %v allocations for 8 hits, %v for 1000; want those of the map only", a, b)
		}
	}
}
