package weirhttp_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// fleetHistory is a history of two instances on one Tier. In every other history, the
// instances are cut off from the Tier at times, or it hangs, or its pushes are lost.
// In these histories it is only checked that no client gets another user's response.
func fleetHistory(t *testing.T, seed uint64) {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), late: time.Millisecond, loose: seed%2 == 0}
	e := openEnsemble(t, 2, func(_ int, o *weirhttp.Options) {
		cache, err := weirhttp.NewCache(2 << 20)
		if err != nil {
			t.Fatal(err)
		}
		w.caches = append(w.caches, cache)
		o.Cache, o.Limiter = cache, permits(t, limit.ConcurrencyOptions{Limit: historyCap, Queue: 20})
		o.FinishAbandoned, o.Relearn = seed%3 == 0, time.Duration(seed%3)*100*time.Millisecond
		o.MaxObject, o.Fleet.MaxObject = 1<<(11+seed%3), 1<<(10+seed%4)
		o.Fleet.Lease, o.Fleet.MemoryCap = time.Second, time.Second
		if seed%3 > 0 {
			o.Fleet.PushValues, o.Fleet.MaxPush = true, 16<<10
		}
		if seed%5 == 0 {
			o.RefreshAhead = 0.5
		}
	}, w.origin)
	w.sites = e.sites
	if w.loose {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 12 {
				time.Sleep(time.Duration(w.draw(300)) * time.Millisecond)
				l := e.lines[w.draw(2)]
				switch w.draw(6) {
				case 0:
					l.Cut()
				case 1, 2:
					l.Mend()
				case 3:
					l.Hang()
				case 4:
					l.Unhang()
				case 5:
					l.Deafen(w.draw(2) == 0)
				}
			}
			for _, l := range e.lines {
				l.Unhang()
				l.Deafen(false)
				l.Mend()
			}
		}()
		defer func() { <-done }()
	}
	w.run()
}

func TestFleetHistory(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 600) {
		synctest.Test(t, func(t *testing.T) { fleetHistory(t, seed) })
	}
}
