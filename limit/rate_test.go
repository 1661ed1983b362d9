package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestRateLetsABurstThroughAndThenTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{Name: "api", PerSecond: 4, Burst: 3})
		for range 3 {
			if _, err := l.TryAcquire(); err != nil {
				t.Fatalf("TryAcquire = %v; want a token of the burst", err)
			}
		}
		_, err := l.TryAcquire()
		if e := refused(t, err, limit.RateExceeded); e.Limiter != "api" || e.RetryAfter != 250*time.Millisecond {
			t.Errorf("rejection = %+v; want from api, after 250ms", e)
		}
		time.Sleep(250*time.Millisecond - 1)
		_, err = l.TryAcquire()
		if e := refused(t, err, limit.RateExceeded); e.RetryAfter > 2 {
			t.Errorf("RetryAfter = %v; want 1ns", e.RetryAfter)
		}
		time.Sleep(time.Nanosecond)
		if _, err = l.TryAcquire(); err != nil {
			t.Errorf("TryAcquire = %v; want the next token", err)
		}
	})
}

func TestRateWaitsInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 10, Burst: 1})
		admitted(t, l, t.Context())
		var calls []*call
		for range 5 {
			calls = append(calls, start(l, t.Context()))
		}
		time.Sleep(time.Second)
		for i, c := range calls {
			c.got(t, time.Duration(i+1)*100*time.Millisecond)
		}
		if s := l.Stats(); s.Admitted != 6 || s.Waited != 5 || s.Queued != 0 {
			t.Errorf("Stats = %+v; want 6 admitted, 5 waited", s)
		}
	})
}

// B4: a caller whose deadline comes before its token is rejected at once, and costs
// no token.
func TestRateRefusesAtOnceWhatCannotMeetItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		for range 10 {
			_, err := l.Acquire(within(t, time.Second))
			if e := refused(t, err, limit.WaitTooLong); e.RetryAfter != time.Second {
				t.Fatalf("RetryAfter = %v; want 1s", e.RetryAfter)
			}
		}
		w := start(l, within(t, time.Second+1))
		time.Sleep(2 * time.Second)
		w.got(t, time.Second)
	})
}

func TestRateRefusesAtOnceWhatWouldWaitPastMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1, MaxWait: 2 * time.Second})
		admitted(t, l, t.Context())
		a, b := start(l, t.Context()), start(l, t.Context())
		_, err := l.Acquire(t.Context())
		if e := refused(t, err, limit.RateExceeded); e.RetryAfter != 3*time.Second {
			t.Errorf("RetryAfter = %v; want 3s", e.RetryAfter)
		}
		time.Sleep(2 * time.Second)
		a.got(t, time.Second)
		b.got(t, 2*time.Second)
	})
}

func TestRateQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1, Queue: 1})
		admitted(t, l, t.Context())
		w := start(l, t.Context())
		_, err := l.Acquire(t.Context())
		refused(t, err, limit.RateExceeded)
		time.Sleep(time.Second)
		w.got(t, time.Second)

		l = newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1, Queue: -1})
		admitted(t, l, t.Context())
		_, err = l.Acquire(t.Context())
		refused(t, err, limit.RateExceeded)
	})
}

// In a bucket of reservations, the callers behind would still wait for their old turn,
// and the token would be lost.
func TestRateWaiterThatLeavesGivesItsTurnToThoseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		var calls []*call
		for range 5 {
			calls = append(calls, start(l, t.Context()))
		}
		time.Sleep(500 * time.Millisecond)
		for _, c := range calls[:4] { // including the head
			c.cancel(errGone)
			c.lost(t, errGone, 500*time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		calls[4].got(t, time.Second)
		if s := l.Stats(); s.Left != 4 || s.Admitted != 2 {
			t.Errorf("Stats = %+v; want 4 left, 2 admitted", s)
		}
	})
}

func TestRateTokenForALeavingWaiterGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
			p := admitted(t, l, t.Context())
			a, b := start(l, t.Context()), start(l, t.Context())
			a.cancel(errGone)
			p.Release(limit.Unused)
			a.lost(t, errGone, 0)
			b.got(t, 0)
			if s := l.Stats(); s.Admitted != 2 || s.Waited != 1 || s.Left != 1 {
				t.Fatalf("Stats = %+v; want 2 admitted, 1 waited, 1 left", s)
			}
		}
	})
}

func TestRateDoneContextWinsOverAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		ctx := &mute{Context: t.Context()}
		w := startBare(l, ctx)
		ctx.ended.Store(true)
		time.Sleep(time.Second)
		w.lost(t, errGone, time.Second)
		if s := l.Stats(); s.Tokens != 1 || s.Left != 1 || s.Admitted != 1 {
			t.Errorf("Stats = %+v; want 1 token, 1 left, 1 admitted", s)
		}
	})
}

func TestRateTakesBackAnUnusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 2})
		a, b := admitted(t, l, t.Context()), admitted(t, l, t.Context())
		for _, o := range []limit.Outcome{limit.Success, limit.Dropped, limit.Ignored} {
			a.Release(o)
			if n := l.Stats().Tokens; n != 0 {
				t.Fatalf("Release(%v) left %v tokens; want 0", o, n)
			}
		}
		a.Release(limit.Unused)
		a.Release(limit.Unused)
		if s := l.Stats(); s.Tokens != 1 || s.Returned != 1 {
			t.Fatalf("%v tokens, %d returned; want 1, 1", s.Tokens, s.Returned)
		}
		// The bucket has been full since b was taken, so b would be one too many.
		time.Sleep(10 * time.Second)
		admitted(t, l, t.Context())
		b.Release(limit.Unused)
		if s := l.Stats(); s.Tokens != 1 || s.Returned != 1 {
			t.Errorf("%v tokens, %d returned; want 1, 1", s.Tokens, s.Returned)
		}
	})
}

func TestRateForgetsVeryOldTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 5000})
		old := admitted(t, l, t.Context())
		recent := admitted(t, l, t.Context())
		for range 1023 {
			admitted(t, l, t.Context())
		}
		old.Release(limit.Unused)
		recent.Release(limit.Unused)
		if n := l.Stats().Returned; n != 1 {
			t.Errorf("%d tokens returned; want 1", n)
		}
	})
}

func TestRateReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1, MaxWait: 2 * time.Second})
		now, err := l.Reserve()
		if err != nil || now.Delay() != 0 {
			t.Fatalf("Reserve = %v, delay %v; want a token now", err, now.Delay())
		}
		a, _ := l.Reserve()
		b, _ := l.Reserve()
		if a.Delay() != time.Second || b.Delay() != 2*time.Second {
			t.Fatalf("delays = %v, %v; want 1s, 2s", a.Delay(), b.Delay())
		}
		_, err = l.Reserve()
		refused(t, err, limit.RateExceeded)

		time.Sleep(500 * time.Millisecond)
		a.Cancel()
		a.Cancel()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if d := b.Delay(); d != 0 {
			t.Errorf("delay = %v; want 0, because the one before it was canceled", d)
		}
		b.Cancel() // its token was granted, and is returned
		b.Cancel()
		if s := l.Stats(); s.Tokens != 1 || s.Left != 1 || s.Returned != 1 {
			t.Errorf("Stats = %+v; want 1 token, 1 left, 1 returned", s)
		}
	})
}

func TestRateGivesNothingToADoneContext(t *testing.T) {
	l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	if _, err := l.Acquire(ctx); !errors.Is(err, errGone) {
		t.Errorf("Acquire = %v; want %v", err, errGone)
	}
	if s := l.Stats(); s.Tokens != 1 {
		t.Errorf("%v tokens; want 1", s.Tokens)
	}
}

func TestRateTakesBackEveryTokenInALongLife(t *testing.T) {
	l := newRate(t, limit.RateOptions{PerSecond: 1e-9, Burst: 2})
	for range 5000 {
		acquired(t, l, t.Context()).Release(limit.Unused)
	}
	if n := l.Stats().Returned; n != 5000 {
		t.Errorf("%d tokens returned; want 5000", n)
	}
}

func TestRateInfinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: math.Inf(1), Burst: 1, Queue: -1})
		for range 1000 {
			admitted(t, l, background(t)).Release(limit.Unused)
		}
		if s := l.Stats(); !math.IsInf(s.Tokens, 1) || s.Admitted != 1000 {
			t.Errorf("Stats = %+v; want no limit", s)
		}
	})
}

// Rates at the ends of float64 neither overflow a Duration nor divide by zero.
func TestRateExtremes(t *testing.T) {
	for _, perSecond := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-12, 1e9, 1e18, 1e300, math.MaxFloat64} {
		synctest.Test(t, func(t *testing.T) {
			l := newRate(t, limit.RateOptions{PerSecond: perSecond, Burst: 1, MaxWait: -1})
			admitted(t, l, t.Context())
			if perSecond > 1e9 { // more than a token a nanosecond
				time.Sleep(time.Nanosecond)
				admitted(t, l, t.Context())
				return
			}
			_, err := l.TryAcquire()
			refused(t, err, limit.RateExceeded)
			_, err = l.Acquire(within(t, 1))
			refused(t, err, limit.WaitTooLong)
			w := start(l, t.Context())
			if perSecond < 1 {
				time.Sleep(1000 * time.Hour)
				w.waits(t)
			}
			w.cancel(errGone)
		})
	}
}

// A process that was stopped does not admit all overdue callers at once.
func TestRateCatchesUpOnlyALittleAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		var calls []*call
		for range 5 {
			calls = append(calls, start(l, t.Context()))
		}
		l.Stall()
		time.Sleep(10 * time.Second)
		l.Tick()
		time.Sleep(time.Second)
		synctest.Wait()
		done := 0
		for _, c := range calls {
			if c.back.Load() {
				done++
			}
		}
		if done != 2 {
			t.Errorf("%d were admitted; want 2: one overdue, one a second later", done)
		}
		for _, c := range calls {
			c.cancel(errGone)
		}
	})
}

// Timers are coarser than the gap between tokens: callers whose tokens have come due
// are admitted together, in order, and the rate is kept.
func TestRateIsNotLoweredByLateTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1000, Burst: 1})
		admitted(t, l, t.Context())
		var calls []*call
		for range 100 {
			calls = append(calls, start(l, t.Context()))
		}
		l.Stall()
		time.Sleep(50*time.Millisecond + time.Microsecond)
		l.Tick()
		for _, c := range calls[:50] {
			c.got(t, 50*time.Millisecond+time.Microsecond)
		}
		time.Sleep(time.Second)
		for i, c := range calls[50:] { // on time again
			c.got(t, time.Duration(51+i)*time.Millisecond)
		}
	})
}

// An overdue token goes to the queue, not to a newcomer.
func TestRateNewcomerDoesNotTakeAnOverdueToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 100, Burst: 10, Queue: 1})
		for range 10 {
			admitted(t, l, t.Context())
		}
		w := start(l, t.Context())
		l.Stall()
		time.Sleep(time.Second)
		_, err := l.TryAcquire()
		refused(t, err, limit.RateExceeded)
		_, err = l.Acquire(t.Context())
		refused(t, err, limit.RateExceeded)
		l.Tick()
		w.got(t, time.Second)
	})
}

// A token returned while the timer is late adds to the overdue ones, although the
// bucket holds only one.
func TestRateReturnedTokenAddsToOverdueOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		p := admitted(t, l, t.Context())
		a, b := start(l, t.Context()), start(l, t.Context())
		l.Stall()
		time.Sleep(time.Second + time.Millisecond)
		p.Release(limit.Unused)
		a.got(t, time.Second+time.Millisecond)
		b.got(t, time.Second+time.Millisecond)
	})
}

// At every rate, a caller that retries after RetryAfter is admitted, and one that
// retries marginally earlier is not.
func TestRateRetryAfterIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rates := []func() float64{
		func() float64 { return math.Exp(r.Float64()*20 - 8) },
		func() float64 { return float64(1 + r.IntN(100)) }, // often a whole number of nanoseconds
	}
	for i := range 300 {
		synctest.Test(t, func(t *testing.T) {
			l := newRate(t, limit.RateOptions{PerSecond: rates[i%2](), Burst: 1 + r.IntN(1000)})
			for range l.Stats().Burst {
				admitted(t, l, t.Context())
			}
			for range 5 {
				time.Sleep(time.Duration(r.Float64() / l.Stats().PerSecond * float64(time.Second)))
				_, err := l.TryAcquire()
				e := refused(t, err, limit.RateExceeded)
				hair := min(e.RetryAfter, 2+time.Duration(1/l.Stats().PerSecond)) // a billionth of a token
				time.Sleep(e.RetryAfter - hair)
				if _, err = l.TryAcquire(); hair < e.RetryAfter {
					refused(t, err, limit.RateExceeded)
				}
				time.Sleep(hair)
				if _, err := l.TryAcquire(); err != nil {
					t.Fatalf("%v per second: TryAcquire after %v = %v; want a token", l.Stats().PerSecond, e.RetryAfter, err)
				}
			}
		})
	}
}
