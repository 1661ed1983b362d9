package weir_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

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
