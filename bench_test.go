package weir_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

// benchKeys is how many keys the hits are spread over. It is a power of two.
const benchKeys = 1 << 10

// BenchmarkHitTrigger is a fresh hit with each trigger of refreshes. With
// RefreshBeta it is measured where hits need no draw, and where each of them
// has one. "everyhit" is the rejected form, a draw for every hit however far
// the expiry is: it is what the trigger would cost at the least then, and has
// no look at the entry in it.
func BenchmarkHitTrigger(b *testing.B) {
	const took = time.Millisecond
	// The draws' window is 28 times the load times beta before the expiry. In
	// a window that begins 20 times it before, an hour before the expiry, one
	// hit in 10^8 starts a refresh at first.
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

// hitGuard returns a Guard that holds the values of all keys, which one bulk
// load of a given time has brought.
func hitGuard(tb testing.TB, o weir.Options, took time.Duration) *weir.Guard[int, int] {
	g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
		values := make(map[int]int, len(keys))
		for start := time.Now(); time.Since(start) < took; { // no sleep is so exact
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
