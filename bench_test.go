package weir_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

// benchKeys is the number of keys over which the hits are spread, a power of
// two.
const benchKeys = 1 << 10

// BenchmarkHitTrigger measures a fresh hit with each trigger of refreshes. With
// RefreshBeta it is measured where hits need no draw, and where each hit draws.
// "everyhit" is the rejected form, a draw for every hit regardless of the
// expiry: a lower bound of its cost, without reading the entry.
func BenchmarkHitTrigger(b *testing.B) {
	const took = time.Millisecond
	// Hits draw from 28·load·beta before the expiry. Here the expiry is an hour
	// away and 20·load·beta is an hour, so that at first one hit in 10^8 starts
	// a refresh.
	inside := float64(time.Hour) / float64(took) / 20
	for _, row := range []struct {
		name string
		o    weir.Options
		draw bool
	}{
		{"off", weir.Options{TTL: time.Hour}, false},
		{"window", weir.Options{TTL: time.Hour, RefreshAhead: 0.2}, false},
		{"xfetch/outside", weir.Options{TTL: time.Hour, RefreshBeta: 1}, false},
		{"xfetch/inside", weir.Options{TTL: time.Hour, RefreshBeta: inside}, false},
		{"xfetch/everyhit", weir.Options{TTL: time.Hour}, true},
	} {
		b.Run("trigger="+row.name, func(b *testing.B) {
			g := hitGuard(b, row.o, took)
			left := float64(time.Hour)
			b.ReportAllocs()
			ctx, i, refreshes := b.Context(), 0, 0
			for b.Loop() {
				if v, err := g.Get(ctx, i&(benchKeys-1)); v == 0 || err != nil {
					b.Fatal(v, err)
				}
				if row.draw && rand.ExpFloat64()*float64(took) >= left {
					refreshes++
				}
				i++
			}
			if refreshes > 0 {
				b.Errorf("%d refreshes; want 0", refreshes)
			}
		})
	}
}

// hitGuard returns a Guard that holds the values of all keys, from one bulk
// load that took took.
func hitGuard(tb testing.TB, o weir.Options, took time.Duration) *weir.Guard[int, int] {
	g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
		values := make(map[int]int, len(keys))
		for start := time.Now(); time.Since(start) < took; { // a sleep is not exact enough
			for _, key := range keys {
				values[key] = key + 1
			}
		}
		return values, nil
	}}, o))
	keys := make([]int, benchKeys)
	for i := range keys {
		keys[i] = i
	}
	for key, r := range g.GetMany(tb.Context(), keys) {
		if r.Err != nil {
			tb.Fatalf("GetMany: %d: %v", key, r.Err)
		}
	}
	tb.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return g
}

// hitRows are the configurations in which a hit is measured.
var hitRows = []struct {
	name string
	o    weir.Options
}{
	{"plain", weir.Options{}},
	{"observer", weir.Options{Observer: weir.NopObserver{}}},
	{"hotkeys", weir.Options{HotKeys: 100}},
	{"both", weir.Options{Observer: weir.NopObserver{}, HotKeys: 100}},
}

// settings returns o with the options that hits usually have to check.
func settings(o weir.Options) weir.Options {
	o.TTL, o.RefreshAhead, o.StaleWhileRevalidate, o.StaleIfError = time.Hour, 0.2, time.Hour, time.Hour
	return o
}

// BenchmarkHit measures a fresh hit without and with the features that inspect
// hits. "rand" is the rejected way to sample them, a random number for each
// hit.
func BenchmarkHit(b *testing.B) {
	for _, row := range hitRows {
		b.Run("with="+row.name, func(b *testing.B) { benchHit(b, row.o, func() bool { return true }) })
	}
	b.Run("with=rand", func(b *testing.B) {
		benchHit(b, weir.Options{}, func() bool { return rand.Uint64()>>8 > 0 })
	})
}

func benchHit(b *testing.B, o weir.Options, also func() bool) {
	g := hitGuard(b, settings(o), time.Millisecond)
	b.ReportAllocs()
	ctx, i := b.Context(), 0
	for b.Loop() {
		if v, err := g.Get(ctx, i&(benchKeys-1)); v == 0 || err != nil || !also() {
			b.Fatal(v, err)
		}
		i++
	}
}

// BenchmarkHitParallel is BenchmarkHit with a caller on every processor.
func BenchmarkHitParallel(b *testing.B) {
	for _, row := range hitRows {
		b.Run("with="+row.name, func(b *testing.B) {
			g := hitGuard(b, settings(row.o), time.Millisecond)
			b.ReportAllocs()
			var callers atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				ctx, i := b.Context(), int(callers.Add(1))*(benchKeys/7) // start at different keys
				for pb.Next() {
					if v, err := g.Get(ctx, i&(benchKeys-1)); v == 0 || err != nil {
						b.Error(v, err)
						return
					}
					i++
				}
			})
		})
	}
}
