package limit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A plant is a source whose latency and outcome depend on the number of calls in
// flight.
type plant func(inFlight int) (takes time.Duration, o limit.Outcome)

// press runs callers that acquire a permit from a repeatedly for d, and call p with
// it. It must be run in a bubble.
func press(a *limit.Adaptive, callers int, d time.Duration, p plant) {
	var inFlight atomic.Int64
	end := time.Now().Add(d)
	for i := range callers {
		go func() {
			time.Sleep(time.Duration(i) * 101 * time.Microsecond)
			for time.Now().Before(end) {
				permit, err := a.Acquire(context.Background())
				if err != nil {
					panic(err) // the queue has room for all of them
				}
				takes, o := p(int(inFlight.Add(1)))
				time.Sleep(takes)
				inFlight.Add(-1)
				permit.Release(o)
			}
		}()
	}
	time.Sleep(d + time.Hour) // for the queued and the running calls to end
}

// roomy runs 20 calls at once, in 50 ms, and queues further ones.
func roomy(inFlight int) (time.Duration, limit.Outcome) {
	return 50 * time.Millisecond * time.Duration(max(20, inFlight)) / 20, limit.Success
}

func adaptiveIn(t *testing.T, o limit.AdaptiveOptions, f func(a *limit.Adaptive)) {
	t.Helper()
	o.MaxWait = -1
	synctest.Test(t, func(t *testing.T) {
		a, err := limit.NewAdaptive(o)
		if err != nil {
			t.Fatal(err)
		}
		f(a)
		a.Check(t)
	})
}

// B4: the limit does not grow unless it was reached.
func TestB4AdaptiveDoesNotGrowUnlessReached(t *testing.T) {
	adaptiveIn(t, limit.AdaptiveOptions{Initial: 10}, func(a *limit.Adaptive) {
		press(a, 9, 10*time.Minute, roomy)
		if got := a.Limit(); got != 10 {
			t.Errorf("Limit = %d after ten minutes of 9 callers; want the initial 10", got)
		}
		press(a, 40, time.Minute, roomy)
		if got := a.Limit(); got < 18 || got > 30 {
			t.Errorf("Limit = %d after a minute of 40 callers; want about 20", got)
		}
	})
}

// B4: timeouts count as drops, however similar their latencies are. So do calls that
// were abandoned after much more than the healthy latency. Ignored calls that end
// early, or before the latency is known, do not count.
func TestB4AdaptiveDropsLowerTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		outcome limit.Outcome
		takes   time.Duration
		most    int
	}{
		{"timed out", limit.Dropped, time.Second, 1},
		{"refused by the source at once", limit.Dropped, time.Millisecond, 1},
		{"given up late", limit.Ignored, time.Second, 1},
		{"given up soon", limit.Ignored, 100 * time.Millisecond, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			adaptiveIn(t, limit.AdaptiveOptions{}, func(a *limit.Adaptive) {
				press(a, 40, time.Minute, roomy)
				before := a.Limit()
				press(a, 40, 3*time.Minute, func(int) (time.Duration, limit.Outcome) { return tt.takes, tt.outcome })
				got := a.Limit()
				if got > tt.most || tt.most > 1 && got != before {
					t.Errorf("Limit = %d, was %d; want at most %d", got, before, tt.most)
				}
				base := a.Stats().Baseline
				if base < 40*time.Millisecond || base > 60*time.Millisecond {
					t.Errorf("Baseline = %v; want 50 ms as before", base)
				}
			})
		})
	}
}

// B4: a share of calls that fail at any limit does not lower the limit for the calls
// that succeed.
func TestB4AdaptivePutsUpWithAFewDrops(t *testing.T) {
	adaptiveIn(t, limit.AdaptiveOptions{}, func(a *limit.Adaptive) {
		n := new(atomic.Int64)
		press(a, 40, 10*time.Minute, func(inFlight int) (time.Duration, limit.Outcome) {
			takes, _ := roomy(inFlight)
			if n.Add(1)%5 == 0 {
				return takes, limit.Dropped
			}
			return takes, limit.Success
		})
		if got := a.Limit(); got < 10 {
			t.Errorf("Limit = %d with a fifth of the calls failing for another reason; want about 20", got)
		}
	})
}

// B4: the limit stays between Min and Max.
func TestB4AdaptiveKeepsItsBounds(t *testing.T) {
	adaptiveIn(t, limit.AdaptiveOptions{Min: 5, Max: 15}, func(a *limit.Adaptive) {
		press(a, 40, time.Minute, roomy)
		if got := a.Limit(); got != 15 {
			t.Errorf("Limit = %d; want Max, 15", got)
		}
		press(a, 40, time.Minute, func(int) (time.Duration, limit.Outcome) { return time.Second, limit.Dropped })
		if got := a.Limit(); got != 5 {
			t.Errorf("Limit = %d; want Min, 5", got)
		}
	})
}

// B4: the limit stays between Min and Max in probes above and below the knee.
func TestB4AdaptiveKeepsItsBoundsWhileProbing(t *testing.T) {
	adaptiveIn(t, limit.AdaptiveOptions{Min: 19, Max: 22, Initial: 20}, func(a *limit.Adaptive) {
		var outside atomic.Int64
		press(a, 60, 10*time.Minute, func(inFlight int) (time.Duration, limit.Outcome) {
			if l := a.Limit(); l < 19 || l > 22 {
				outside.Store(int64(l))
			}
			return roomy(inFlight)
		})
		if got := outside.Load(); got != 0 {
			t.Errorf("Limit was %d; want always 19 to 22", got)
		}
	})
}

// B4: the ceiling on healthy latency. If a source is slower than that at any number
// of calls, the limit falls to Min; without a ceiling it keeps its limit.
func TestB4AdaptiveCeilingOnHealthyLatency(t *testing.T) {
	slow := func(inFlight int) (time.Duration, limit.Outcome) {
		takes, o := roomy(inFlight)
		return 5 * takes, o
	}
	for _, tt := range []struct {
		ceiling     time.Duration
		least, most int
	}{{100 * time.Millisecond, 1, 1}, {-1, 18, 30}} {
		adaptiveIn(t, limit.AdaptiveOptions{MaxBaseline: tt.ceiling}, func(a *limit.Adaptive) {
			press(a, 60, time.Minute, roomy)
			press(a, 60, 10*time.Minute, slow)
			if got := a.Limit(); got < tt.least || got > tt.most {
				t.Errorf("with a ceiling of %v Limit = %d; want %d to %d", tt.ceiling, got, tt.least, tt.most)
			}
		})
	}
}

// B4: the baseline does not drift up in a long overload.
func TestB4AdaptiveBaselineStaysInOverload(t *testing.T) {
	adaptiveIn(t, limit.AdaptiveOptions{}, func(a *limit.Adaptive) {
		press(a, 100, time.Minute, roomy)
		press(a, 100, 20*time.Minute, func(inFlight int) (time.Duration, limit.Outcome) {
			return 50 * time.Millisecond * time.Duration(max(5, inFlight)) / 5, limit.Success
		})
		s := a.Stats()
		if s.Baseline < 45*time.Millisecond || s.Baseline > 60*time.Millisecond || s.Limit > 10 {
			t.Errorf("after twenty minutes with a quarter of the capacity Baseline = %v, Limit = %d; want about 50ms, and at most 10", s.Baseline, s.Limit)
		}
	})
}
