package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// got acquires n units from l without a wait.
func got(t *testing.T, l limit.Limiter, n int) limit.Permit {
	t.Helper()
	ctx := within(t, time.Nanosecond)
	p, err := limit.AcquireN(ctx, l, n)
	if err != nil {
		t.Fatalf("AcquireN(%d) = %v; want a permit at once", n, err)
	}
	return p
}

// H34: an estimate that was too high is given back when it is settled, and goes to the
// callers that wait.
func TestH34SettleGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 100, MaxWait: -1})
		p := got(t, l, 90)
		waits := start(units{l, 50}, t.Context())
		waits.waits(t)
		time.Sleep(10 * time.Second) // 20 tokens
		p.Settle(60)                 // and 30
		waits.got(t, 10*time.Second)
		if s := l.Stats(); s.Returned != 30 || s.Tokens != 0 {
			t.Errorf("Stats = %+v; want 30 returned, and none left", s)
		}
		p.Settle(60)
		p.Release(limit.Success)
		p.Settle(0)
		p.Settle(99)
		if s := l.Stats(); s.Returned != 30 || s.Owed != 0 {
			t.Errorf("Stats = %+v; want nothing returned twice, and nothing returned or owed after Release", s)
		}
	})
}

// H34: tokens are not given back that would have overflowed: others could have had
// them.
func TestH34SettleGivesNothingBackThatOverflowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 100})
		p := got(t, l, 90)
		time.Sleep(80 * time.Second)
		got(t, l, 90)
		p.Settle(1)
		if s := l.Stats(); s.Returned != 10 || s.Tokens != 10 {
			t.Errorf("Stats = %+v; want 10 returned: without p, the bucket would have had 100 at this instant", s)
		}
	})
}

// H34: what an estimate lacked is owed: later callers wait for it, up to a bound.
func TestH34SettleOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 10, MaxDebt: 5, MaxWait: -1})
		p := got(t, l, 1)
		waits := start(units{l, 10}, t.Context())
		p.Settle(11) // of 10 more, the bucket has 9
		waits.waits(t)
		if s := l.Stats(); s.Owed != 10 || s.Tokens != -1 {
			t.Errorf("Stats = %+v; want 10 owed, and -1 tokens", s)
		}
		p.Settle(100)
		if s := l.Stats(); s.Owed != 14 || s.Forgiven != 85 || s.Tokens != -5 {
			t.Errorf("Stats = %+v; want 14 owed, 85 forgiven, and -5 tokens", s)
		}
		time.Sleep(14 * time.Second)
		waits.waits(t)
		time.Sleep(time.Second)
		waits.got(t, 15*time.Second)
	})
}

// H34: the RetryAfter of a rejection counts what is owed and what waits, in units.
func TestH34RetryAfterCountsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 10, Burst: 100, MaxWait: 5 * time.Second})
		p := got(t, l, 100)
		p.Settle(120)
		_, err := l.AcquireN(t.Context(), 50)
		if e := refused(t, err, limit.RateExceeded); e.RetryAfter != 7*time.Second {
			t.Errorf("RetryAfter = %v; want 7s, for 20 owed and 50 requested", e.RetryAfter)
		}
	})
}

// H34: a call that costs more than the whole limit is rejected at once and for good,
// with both numbers.
func TestH34MoreThanTheWhole(t *testing.T) {
	for name, l := range map[string]acquirer{
		"rate":        newRate(t, limit.RateOptions{Name: "l", PerSecond: 1, Burst: 10}),
		"concurrency": newConcurrency(t, limit.ConcurrencyOptions{Name: "l", Limit: 10}),
		"adaptive":    newAdaptive(t, limit.AdaptiveOptions{Name: "l", Max: 10}),
		"all":         limit.All(newRate(t, limit.RateOptions{PerSecond: 1, Burst: 100}), newConcurrency(t, limit.ConcurrencyOptions{Name: "l", Limit: 10})).(acquirer),
	} {
		_, err := l.AcquireN(t.Context(), 11)
		if e := refused(t, err, limit.TooMany); e.Units != 11 || e.Most != 10 || !strings.Contains(err.Error(), `"l": more units than the limit: the call costs 11 units, and the limit is 10`) {
			t.Errorf("%s: AcquireN(11) = %v", name, err)
		}
	}
}

// H34: the same for a number of units that overflows when it is added to those in use:
// it is rejected, and takes none.
func TestH34MoreThanFitIntoAnInt(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 10, Queue: 1}, func(t *testing.T, l queued) {
		for range 2 { // with a unit in use the sum wraps around; with none in use it does not
			for _, n := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt - 10} {
				_, err := limit.AcquireN(t.Context(), l, n)
				if e := refused(t, err, limit.TooMany); e.Units != n || e.Most != 10 {
					t.Errorf("AcquireN(%d) = %v", n, err)
				}
			}
			got(t, l, 1)
		}
		if s := statsOf(l); s.InUse != 2 {
			t.Errorf("Stats = %+v; want 2 in use", s)
		}
	})
}

// H34: in a dry run a call of more units than the limit is admitted. It counts as the
// whole limit, so its cost for the limiter is bounded.
func TestH34MoreThanTheWholeInADryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAdaptive(t, limit.AdaptiveOptions{Max: 10, DryRun: true})
		one := got(t, l, 1)
		p := got(t, l, math.MaxInt)
		if s := l.Stats(); s.InUse != 11 || s.WouldRefuse[limit.TooMany] != 1 {
			t.Errorf("Stats = %+v; want 11 in use, and one call that would have been too large", s)
		}
		p.Settle(2)
		if s := l.Stats(); s.InUse != 3 {
			t.Errorf("Stats = %+v; want 3 in use", s)
		}
		p.Settle(math.MaxInt)
		p.Release(limit.Success)
		one.Release(limit.Success)
		if s := l.Stats(); s.InUse != 0 {
			t.Errorf("Stats = %+v; want none in use", s)
		}
		l.Check(t)
	})
}

// H34: units of a Concurrency that are settled go to the callers that wait; units that
// were missing are in use until Release, beyond the limit if need be.
func TestH34SettleOfUnitsInUse(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 10}, func(t *testing.T, l queued) {
		p := got(t, l, 8)
		waits := start(units{l, 5}, t.Context())
		waits.waits(t)
		p.Settle(5)
		q := waits.got(t, 0)
		q.Settle(200) // counts as the limit, 10
		if s := statsOf(l); s.InUse != 15 {
			t.Errorf("Stats = %+v; want 15 in use", s)
		}
		waits = start(units{l, 1}, t.Context())
		p.Release(limit.Success)
		waits.waits(t)
		q.Settle(9)
		waits.got(t, 0).Release(limit.Success)
		q.Release(limit.Success)
		q.Settle(3)
		if s := statsOf(l); s.InUse != 0 {
			t.Errorf("Stats = %+v; want none in use", s)
		}
	})
}

// H34: All counts units in each limiter that can, and calls in those that are wrapped.
func TestH34AllCountsUnits(t *testing.T) {
	synctest.Test(t, allCountsUnits)
}

func allCountsUnits(t *testing.T) {
	rate := newRate(t, limit.RateOptions{PerSecond: 1e-3, Burst: 100})
	calls := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2})
	var own []int
	outside := unitLimiter(func(n int) limit.Permit {
		own = append(own, n)
		return limit.NewUnitsPermit(func(n int) { own = append(own, n) }, nil)
	})
	l := limit.All(rate, limit.PerCall(calls), outside)
	p := got(t, l, 60)
	p.Settle(70)
	if s, c := rate.Stats(), calls.Stats(); s.Owed != 10 || c.InUse != 1 {
		t.Errorf("Stats = %+v and %+v; want 10 owed, and 1 in use", s, c)
	}
	p.Release(limit.Unused)
	p.Settle(1)
	if s, c := rate.Stats(), calls.Stats(); s.Returned != 60 || c.InUse != 0 {
		t.Errorf("Stats = %+v and %+v; want 60 returned, and none in use", s, c)
	}
	if !slices.Equal(own, []int{60, 70}) {
		t.Errorf("the limiter from outside saw %v; want 60, then 70", own)
	}
	if parts := limit.Parts(l); len(parts) != 3 || parts[1] != limit.Limiter(calls) {
		t.Errorf("Parts = %v; want the limiter that PerCall wraps", parts)
	}
	p, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Settle(50)
	if s := rate.Stats(); s.Owed != 10 {
		t.Errorf("Stats = %+v; want nothing owed by a permit of Acquire", s)
	}
	p.Release(limit.Unused)
}

// A unitLimiter is a UnitLimiter from another package.
type unitLimiter func(n int) limit.Permit

func (l unitLimiter) Acquire(context.Context) (limit.Permit, error) { return l(1), nil }

func (l unitLimiter) AcquireN(_ context.Context, n int) (limit.Permit, error) { return l(n), nil }

// H34: in any window, calls take at most the rate, the burst and the debt, whatever is
// given back and owed.
func TestH34NeverMoreThanRateBurstAndDebt(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		synctest.Test(t, func(t *testing.T) { takeInWindows(t, rand.New(rand.NewPCG(seed, 34))) })
	}
}

func takeInWindows(t *testing.T, r *rand.Rand) {
	const perSecond, burst, debt = 10, 50, 30
	type use struct {
		at    time.Time
		units int
	}
	type running struct {
		p  limit.Permit
		of int // in uses
	}
	l := newRate(t, limit.RateOptions{PerSecond: perSecond, Burst: burst, MaxDebt: debt, Queue: -1})
	var uses []use
	var calls []running
	for range 200 {
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		if n := 1 + r.IntN(burst); r.IntN(2) == 0 {
			if p, err := l.AcquireN(t.Context(), n); err == nil {
				calls = append(calls, running{p, len(uses)})
				uses = append(uses, use{time.Now(), n})
			}
			continue
		}
		if len(calls) == 0 {
			continue
		}
		i := r.IntN(len(calls))
		before := l.Stats()
		calls[i].p.Settle(r.IntN(2 * burst))
		after := l.Stats()
		uses[calls[i].of].units -= int(after.Returned - before.Returned)
		uses = append(uses, use{time.Now(), int(after.Owed - before.Owed)})
		calls[i].p.Release(limit.Success)
		calls = slices.Delete(calls, i, i+1)
	}
	for i := range uses {
		sum := 0
		for _, u := range uses[i:] {
			sum += u.units
			if most := perSecond*u.at.Sub(uses[i].at).Seconds() + burst + debt + 1e-6; float64(sum) > most {
				t.Fatalf("%d units in %v; want at most %v", sum, u.at.Sub(uses[i].at), most)
			}
		}
	}
}

// H34: under the race detector, what is settled, released and left by callers adds up.
func TestH34SettleUnderFire(t *testing.T) {
	rate := newRate(t, limit.RateOptions{PerSecond: 1e6, Burst: 50, MaxWait: -1})
	calls := newConcurrency(t, limit.ConcurrencyOptions{Limit: 50, MaxWait: -1})
	l := limit.All(rate, calls)
	var wg sync.WaitGroup
	for i := range 16 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(2) == 0 {
					go cancel()
				}
				p, err := limit.AcquireN(ctx, l, 1+r.IntN(20))
				if err == nil {
					n, m := 1+r.IntN(20), 1+r.IntN(20)
					go p.Settle(n) // may come after Release, and then do nothing
					p.Settle(m)
					p.Release(limit.Unused)
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("AcquireN = %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if s, c := rate.Stats(), calls.Stats(); s.Queued != 0 || s.Tokens > 50 || c.InUse != 0 || c.Queued != 0 {
		t.Errorf("Stats = %+v and %+v; want none in use, none queued, and at most 50 tokens", s, c)
	}
}
