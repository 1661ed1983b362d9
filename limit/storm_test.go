package limit_test

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

var (
	storms     = flag.String("storms", `^metastable, (2|20) workers, load 0.95, (3 retries with backoff|10 retries)(, aware)?$`, "run the storms whose names match this regular expression; with 300 workers each takes a minute")
	stormGates = flag.String("stormgates", "^(none|fixed)$", "with these of none, fixed and adaptive")
)

// B9: after a trigger is over, goodput is back within seconds, with a MinLimit of 1 and otherwise the default options. Without
// protection it does not come back within a minute. The runs are deterministic.
func TestB9AStormEnds(t *testing.T) {
	chosen, gates := regexp.MustCompile(*storms), regexp.MustCompile(*stormGates)
	fixed := simulate.Contender{Name: "fixed", New: func(simulate.Scenario) simulate.Gate {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 256, MinLimit: 1}) // the gateway's default limit
		if err != nil {
			panic(err)
		}
		return simulate.Limiter(l)
	}}
	for _, s := range simulate.Storms() {
		if !chosen.MatchString(s.String()) {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			for _, c := range []simulate.Contender{simulate.None(), fixed, adaptive()} {
				if !gates.MatchString(c.Name) {
					continue
				}
				r := simulate.Compare(t, s.Scenario(), c)[0]
				share, after := s.Recovery(r)
				t.Logf("%-10s %.2f of the goodput, after %d s", r.Gate, share, after)
				switch {
				case c.Name == "none" && after >= 0:
					t.Errorf("without a limit it recovers after %d s; want never, or this test shows nothing", after)
				case c.Name == "fixed" && (share < 0.95 || after < 0 || after > 5):
					t.Errorf("%.2f of the goodput, after %d s; want 0.95 within 5 s: %d", share, after, r.PerSecond)
				}
			}
		})
	}
}

// stormy makes the last of n calls that are in use late, after patience.
func stormy(t *testing.T, l limit.Limiter, n int, patience time.Duration) (running []limit.Permit) {
	t.Helper()
	for range n {
		running = append(running, acquired(t, l, t.Context()))
	}
	time.Sleep(patience)
	for _, p := range running {
		p.Abandon()
		p.Abandon() // counts once
	}
	return running
}

func usual(t *testing.T, l limit.Limiter, n int, took time.Duration) {
	t.Helper()
	for range n {
		held(t, l, took)
	}
}

// A fixed limit falls while calls are late, is reported, and is what it was afterwards.
func TestB9TheLimitFallsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		l := newConcurrency(t, limit.ConcurrencyOptions{Name: "db", Limit: 64, MinLimit: 1, OnStorm: func(s limit.Storm) { reported = append(reported, fmt.Sprint(s)) }})
		usual(t, l, 32, 100*time.Millisecond)
		running := stormy(t, l, 64, time.Second)
		s := l.Stats()
		if !s.Storm || s.Limit != 16 || s.Storms != 1 || s.Late != 64 || s.InUse != 64 {
			t.Errorf("Stats = %+v; want a storm with a quarter of 64, 64 late calls and their permits taken", s)
		}
		waiting := start(l, t.Context())
		for _, p := range running[:48] {
			p.Release(limit.Ignored)
		}
		waiting.waits(t)
		running[48].Release(limit.Ignored)
		waiting.got(t, 0).Release(limit.Ignored)
		for _, p := range running {
			p.Release(limit.Ignored)
		}
		time.Sleep(30*time.Second + 1)
		held(t, l, 100*time.Millisecond)
		if s := l.Stats(); s.Storm || s.Limit != 64 || s.Late != 64 {
			t.Errorf("Stats = %+v; want no storm 30 s after the last late call, and the whole limit", s)
		}
		if got := fmt.Sprint(reported); got != "[{db true 16} {db false 64}]" {
			t.Errorf("reported %s; want the beginning and the end", got)
		}
	})
}

// While callers wait for it and calls end in time, the limit doubles.
func TestB9ALoweredLimitGrowsWithCallsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 64, MinLimit: 1})
		usual(t, l, 32, 100*time.Millisecond)
		for _, p := range stormy(t, l, 64, time.Second) {
			p.Release(limit.Ignored)
		}
		var seen []int
		var calls []*call
		for range 5 {
			for len(calls) < 80 {
				calls = append(calls, start(l, t.Context()))
			}
			time.Sleep(100 * time.Millisecond)
			n := l.Stats().InUse
			for _, c := range calls[:n] {
				c.permit.Release(limit.Success)
			}
			calls = calls[n:]
			seen = append(seen, l.Stats().Limit)
			synctest.Wait()
		}
		if got := fmt.Sprint(seen); got != "[32 64 64 64 64]" {
			t.Errorf("the limit was %s; want it doubled by each round in time, up to 64", got)
		}
		for _, c := range calls {
			c.cancel(errGone)
			synctest.Wait()
			c.permit.Release(limit.Ignored)
		}
	})
}

// Without callers that wait for it, the limit stays low until the storm is over.
func TestB9ALoweredLimitThatIsEnoughStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 64, MinLimit: 1})
		usual(t, l, 32, 100*time.Millisecond)
		for _, p := range stormy(t, l, 64, time.Second) {
			p.Release(limit.Ignored)
		}
		usual(t, l, 290, 100*time.Millisecond)
		if s := l.Stats(); s.Limit != 16 {
			t.Errorf("the limit is %d after 29 s of calls that needed no more; want 16", s.Limit)
		}
		usual(t, l, 20, 100*time.Millisecond)
		if s := l.Stats(); s.Limit != 64 || s.Storm {
			t.Errorf("the limit is %d after 31 s; want 64", s.Limit)
		}
	})
}

// Callers that leave before a call usually ends, calls that are late for another reason than
// their number, and MinLimit: no storm.
func TestB9NoStorm(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    limit.ConcurrencyOptions
		do   func(t *testing.T, l *limit.Concurrency)
	}{
		{"callers leave early", limit.ConcurrencyOptions{Limit: 64, MinLimit: 1}, func(t *testing.T, l *limit.Concurrency) {
			for range 20 {
				for _, p := range stormy(t, l, 16, 120*time.Millisecond) {
					p.Release(limit.Ignored)
				}
			}
		}},
		{"some calls hang and others are as fast as usual", limit.ConcurrencyOptions{Limit: 64, MinLimit: 1}, func(t *testing.T, l *limit.Concurrency) {
			for range 20 {
				hanging := stormy(t, l, 1, time.Second)
				held(t, l, 100*time.Millisecond)
				hanging[0].Release(limit.Ignored)
			}
		}},
		{"MinLimit is the limit", limit.ConcurrencyOptions{Limit: 64, MinLimit: 64}, func(t *testing.T, l *limit.Concurrency) {
			for _, p := range stormy(t, l, 64, time.Second) {
				p.Release(limit.Ignored)
			}
		}},
		{"the default", limit.ConcurrencyOptions{Limit: 64}, func(t *testing.T, l *limit.Concurrency) {
			for _, p := range stormy(t, l, 64, time.Second) {
				p.Release(limit.Ignored)
			}
		}},
		{"rejections of the source, which are fast", limit.ConcurrencyOptions{Limit: 64, MinLimit: 1}, func(t *testing.T, l *limit.Concurrency) {
			for range 64 {
				p := acquired(t, l, t.Context())
				time.Sleep(time.Millisecond)
				p.Release(limit.Dropped)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newConcurrency(t, tt.o)
				usual(t, l, 32, 100*time.Millisecond)
				tt.do(t, l)
				if s := l.Stats(); s.Storm || s.Storms != 0 || s.Limit != 64 {
					t.Errorf("Stats = %+v; want no storm", s)
				}
			})
		})
	}
}

// A source that is slower, however many calls it has, gets its limit back: a lower one has
// not helped.
func TestB9AStormThatALowerLimitDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 16, MinLimit: 1})
		usual(t, l, 32, 100*time.Millisecond)
		var seen []int
		for range 24 { // each call takes 900 ms now, and of three clients one has that much patience
			var calls []*call
			for range 24 {
				calls = append(calls, start(l, t.Context()))
			}
			n := l.Stats().InUse
			seen = append(seen, n)
			time.Sleep(900 * time.Millisecond)
			for i, c := range calls[:n] {
				if i%3 > 0 {
					c.permit.Abandon()
					c.permit.Release(limit.Ignored)
				} else {
					c.permit.Release(limit.Success)
				}
			}
			for _, c := range calls[n:] {
				c.cancel(errGone)
				synctest.Wait()
				c.permit.Release(limit.Unused)
			}
		}
		if s := l.Stats(); s.Limit != 16 || s.Storms == 0 {
			t.Errorf("Stats = %+v, limits %d; want the limit back after a storm", s, seen)
		}
	})
}

// Permits of an All, of a RateLimiter and of others can be abandoned, and a call of Do is.
func TestB9AbandonReachesTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 4})
		r := newRate(t, limit.RateOptions{PerSecond: 1e6})
		both := limit.All(r, c)
		p := acquired(t, both, t.Context())
		p.Abandon()
		p.Release(limit.Ignored)
		p.Abandon()
		if s := c.Stats(); s.Late != 1 {
			t.Errorf("All: %d late calls; want 1", s.Late)
		}
		limit.Permit{}.Abandon()
		limit.NewPermit(func(limit.Outcome) {}).Abandon()
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = limit.Do(ctx, c, func(context.Context) (int, error) {
			cancel()
			return 0, nil
		})
		if s := c.Stats(); s.Late != 2 {
			t.Errorf("Do: %d late calls; want 2", s.Late)
		}
	})
}

// Update with a higher MinLimit raises the limit of a storm immediately, and without one the storm ends.
func TestB9AnUpdateOfMinLimitHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		o := limit.ConcurrencyOptions{Limit: 64, MinLimit: 1, OnStorm: func(s limit.Storm) { reported = append(reported, fmt.Sprint(s)) }}
		l := newConcurrency(t, o)
		usual(t, l, 32, 100*time.Millisecond)
		for _, p := range stormy(t, l, 64, time.Second) {
			p.Release(limit.Ignored)
		}
		for _, tt := range []struct{ least, want int }{{8, 16}, {40, 40}, {2, 40}, {0, 64}, {1, 64}} {
			o.MinLimit = tt.least
			if err := l.Update(o); err != nil {
				t.Fatal(err)
			}
			if s := l.Stats(); s.Limit != tt.want || s.Storm != (tt.want < 64) {
				t.Errorf("with MinLimit %d: Stats = %+v; want a limit of %d", tt.least, s, tt.want)
			}
		}
		if got := fmt.Sprint(reported); got != "[{ true 16} { false 64}]" {
			t.Errorf("reported %s; want the beginning, and the end by the update", got)
		}
	})
}

// Neither the free path nor a rejection allocates more than before, nor does a report.
func TestB9StormsCostNoAllocations(t *testing.T) {
	l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 8, Queue: -1})
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		p, err := l.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		p.Abandon()
		p.Release(limit.Ignored)
	}); n != 0 {
		t.Errorf("a permit that is free allocates %v times; want 0", n)
	}
}
