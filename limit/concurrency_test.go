package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// B4: a fixed number of callers is admitted, and the next one waits.
func TestConcurrencyAdmitsLimitAndQueuesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2})
		first := admitted(t, c, t.Context())
		second := admitted(t, c, t.Context())
		third := start(c, t.Context())
		third.waits(t)

		time.Sleep(time.Second)
		first.Release(limit.Success)
		third.got(t, time.Second).Release(limit.Success)
		second.Release(limit.Success)

		if s := c.Stats(); s.InUse != 0 || s.Admitted != 3 || s.Waited != 1 || s.Held != 2*time.Second/3+1 {
			t.Errorf("Stats = %+v; want 0 in use, 3 admitted, 1 waited, held 2s/3", s)
		}
	})
}

func TestConcurrencyServesInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: -1})
		p := admitted(t, c, t.Context())
		var calls []*call
		for range 5 {
			calls = append(calls, start(c, t.Context()))
		}
		for i, next := range calls {
			time.Sleep(time.Second)
			p.Release(limit.Success)
			if _, err := c.TryAcquire(); err == nil {
				t.Fatalf("TryAcquire took the permit that was for caller %d", i)
			}
			p = next.got(t, time.Duration(i+1)*time.Second)
		}
	})
}

// B4: the queue is bounded in callers.
func TestConcurrencyRefusesWhenTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: 1})
		admitted(t, c, t.Context())
		waiting := start(c, t.Context())
		start(c, t.Context()).lost(t, limit.ErrLimited, 0)
		_, err := c.Acquire(t.Context())
		if e := refused(t, err, limit.QueueFull); e.Limiter != "db" || e.RetryAfter != time.Second {
			t.Errorf("rejection = %+v; want from db, after 1s, because nothing is measured", e)
		}
		waiting.cancel(errGone)
		waiting.lost(t, errGone, 0)
		start(c, t.Context()).waits(t) // the place is free again
	})
}

func TestConcurrencyWithoutQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		p := admitted(t, c, t.Context())
		_, err := c.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		p.Release(limit.Success)
		admitted(t, c, t.Context())
	})
}

// B4: deadline-aware. With one permit that is held 1 s each time, the wait is known
// to the nanosecond.
func TestConcurrencyRefusesAtOnceWhatCannotMeetItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		p := admitted(t, c, t.Context())
		time.Sleep(time.Second)
		p.Release(limit.Success)

		admitted(t, c, t.Context())
		time.Sleep(400 * time.Millisecond) // 600 ms to go
		_, err := c.Acquire(within(t, 600*time.Millisecond))
		if e := refused(t, err, limit.WaitTooLong); e.RetryAfter != 600*time.Millisecond {
			t.Errorf("RetryAfter = %v; want 600ms", e.RetryAfter)
		}
		start(c, within(t, 600*time.Millisecond+1)).waits(t)
		_, err = c.Acquire(within(t, 1600*time.Millisecond)) // one caller is ahead of it
		refused(t, err, limit.WaitTooLong)
		start(c, within(t, 1600*time.Millisecond+1)).waits(t)
	})
}

// Before anything is measured, no caller is rejected because of its deadline.
func TestConcurrencyQueuesWhileTheWaitIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		admitted(t, c, t.Context())
		w := start(c, within(t, time.Millisecond))
		w.waits(t)
		time.Sleep(time.Hour)
		w.lost(t, context.DeadlineExceeded, time.Millisecond)
		if s := c.Stats(); s.Left != 1 || s.Queued != 0 {
			t.Errorf("Stats = %+v; want 1 left, 0 queued", s)
		}
	})
}

// B4: the queue is also bounded by the work in it.
func TestConcurrencyRefusesMoreThanMaxWaitsWorth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: 2 * time.Second})
		p := admitted(t, c, t.Context())
		time.Sleep(time.Second)
		p.Release(limit.Success)

		admitted(t, c, t.Context())
		first, second := start(c, t.Context()), start(c, t.Context())
		first.waits(t)
		second.waits(t)
		_, err := c.Acquire(t.Context())
		if e := refused(t, err, limit.QueueFull); e.RetryAfter != 3*time.Second {
			t.Errorf("RetryAfter = %v; want 3s", e.RetryAfter)
		}
	})
}

// When the source hangs, no permit is released and measured, but callers are still
// rejected.
func TestConcurrencyRefusesWhileTheSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: 20 * time.Second, MaxRetryAfter: time.Hour})
		p := admitted(t, c, t.Context())
		time.Sleep(time.Second)
		p.Release(limit.Success)

		p = admitted(t, c, t.Context())
		time.Sleep(4 * time.Second) // it is only slow
		start(c, within(t, time.Millisecond)).waits(t)
		time.Sleep(time.Second)
		_, err := c.Acquire(within(t, 5*time.Second))
		refused(t, err, limit.WaitTooLong)
		start(c, within(t, 5*time.Second+1)).waits(t)
		time.Sleep(16 * time.Second)
		_, err = c.Acquire(t.Context())
		if e := refused(t, err, limit.QueueFull); e.RetryAfter != 21*time.Second {
			t.Errorf("RetryAfter = %v; want 21s", e.RetryAfter)
		}
		p.Release(limit.Success)
		admitted(t, c, t.Context())
	})
}

func TestConcurrencyTimesOutInTheQueueAfterMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: 2 * time.Second})
		admitted(t, c, t.Context()) // and its call hangs
		w := start(c, within(t, time.Minute))
		time.Sleep(3 * time.Second)
		w.lost(t, limit.ErrLimited, 2*time.Second)
		refused(t, w.err, limit.QueueTimeout)
		if s := c.Stats(); s.Refused[limit.QueueTimeout] != 1 || s.Refused.Total() != 1 {
			t.Errorf("Refused = %v; want one queue timeout", s.Refused)
		}
	})
}

func TestConcurrencyNegativeMaxWaitLeavesItToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
		p := admitted(t, c, t.Context())
		w := start(c, t.Context())
		time.Sleep(1000 * time.Hour)
		p.Release(limit.Success)
		w.got(t, 1000*time.Hour)
	})
}

func TestConcurrencyLeavesWithTheCallersCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		p := admitted(t, c, t.Context())
		a, b := start(c, t.Context()), start(c, t.Context())
		time.Sleep(time.Second)
		a.cancel(errGone)
		a.lost(t, errGone, time.Second)
		p.Release(limit.Success)
		b.got(t, time.Second) // moved up
	})
}

func TestConcurrencyGivesNothingToADoneContext(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	if _, err := c.Acquire(ctx); !errors.Is(err, errGone) {
		t.Errorf("Acquire = %v; want %v", err, errGone)
	}
	if s := c.Stats(); s.InUse != 0 || s.Admitted != 0 {
		t.Errorf("Stats = %+v; want no permit issued", s)
	}
}

// The permit is released at the instant when the caller hangs up: depending on the
// scheduler, the waiter has left or has been granted the permit.
func TestConcurrencyPermitForALeavingWaiterGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
			p := admitted(t, c, t.Context())
			a, b := start(c, t.Context()), start(c, t.Context())
			a.cancel(errGone)
			p.Release(limit.Success)
			a.lost(t, errGone, 0)
			b.got(t, 0).Release(limit.Success)
			if s := c.Stats(); s.InUse != 0 || s.Admitted != 2 || s.Waited != 1 || s.Left != 1 {
				t.Fatalf("Stats = %+v; want 0 in use, 2 admitted, 1 waited, 1 left", s)
			}
		}
	})
}

// ctx ends at the same instant as the wait, and the select takes the other case: a
// caller whose context is done still gets neither a permit nor a rejection.
func TestConcurrencyDoneContextWinsOverPermitAndTimeout(t *testing.T) {
	for _, timeout := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: time.Second})
			p := admitted(t, c, t.Context())
			ctx := &mute{Context: t.Context()}
			w := startBare(c, ctx)
			ctx.ended.Store(true)
			var took time.Duration
			if timeout {
				took = time.Second
				time.Sleep(took)
				synctest.Wait()
			}
			p.Release(limit.Success)
			w.lost(t, errGone, took)
			if s := c.Stats(); s.InUse != 0 || s.Left != 1 || s.Refused.Total() != 0 {
				t.Errorf("timeout %t: Stats = %+v; want 0 in use, 1 left, 0 rejected", timeout, s)
			}
		})
	}
}

// A permit released at the instant of MaxWait may be granted or not, but is not lost.
func TestConcurrencyPermitAtTheInstantOfMaxWaitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: time.Second})
			p := admitted(t, c, t.Context())
			w := start(c, t.Context())
			time.Sleep(time.Second) // both wake at the same instant
			p.Release(limit.Success)
			synctest.Wait()
			if w.err == nil {
				w.got(t, time.Second).Release(limit.Success)
			} else {
				refused(t, w.err, limit.QueueTimeout)
			}
			if s := c.Stats(); s.InUse != 0 {
				t.Fatalf("%d permits in use; want 0", s.InUse)
			}
		}
	})
}

func TestConcurrencySecondReleaseDoesNothing(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2})
	old, err := c.TryAcquire()
	if err != nil {
		t.Fatal(err)
	}
	old.Release(limit.Success)
	old.Release(limit.Success)
	present, _ := c.TryAcquire() // in the slot that old had
	old.Release(limit.Success)
	if s := c.Stats(); s.InUse != 1 {
		t.Errorf("%d permits in use; want 1", s.InUse)
	}
	present.Release(limit.Success)
	if s := c.Stats(); s.InUse != 0 {
		t.Errorf("%d permits in use; want 0", s.InUse)
	}
}

func TestConcurrencyDoesNotMeasureUnusedPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		p := admitted(t, c, t.Context())
		time.Sleep(time.Hour)
		p.Release(limit.Unused)
		if s := c.Stats(); s.Held != 0 {
			t.Errorf("Held = %v; want 0", s.Held)
		}
		for range 100 {
			p := admitted(t, c, t.Context())
			time.Sleep(time.Second)
			p.Release(limit.Dropped)
		}
		if s := c.Stats(); s.Held != time.Second {
			t.Errorf("Held = %v; want 1s", s.Held)
		}
	})
}

func TestConcurrencyRetryAfterStaysWithinItsBounds(t *testing.T) {
	for _, tt := range []struct {
		held, want time.Duration
	}{
		{0, 10 * time.Millisecond},
		{time.Millisecond, 10 * time.Millisecond},
		{time.Second, time.Second},
		{1e6 * time.Hour, 5 * time.Second}, // half of the default bound
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
			p := admitted(t, c, t.Context())
			time.Sleep(tt.held)
			p.Release(limit.Success)
			admitted(t, c, t.Context())
			_, err := c.TryAcquire()
			if e := refused(t, err, limit.QueueFull); e.RetryAfter != tt.want {
				t.Errorf("held %v: RetryAfter = %v; want %v", tt.held, e.RetryAfter, tt.want)
			}
		})
	}
}
