package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// placed acquires from l like start, in class p, and also returns the place.
func placed(t *testing.T, l limit.Limiter, p limit.Priority) (*call, *limit.Place) {
	var at limit.Place
	return start(l, limit.ContextWithPlace(of(t, p), &at)), &at
}

// inQueue checks that p is in a queue with that wait.
func inQueue(t *testing.T, name string, p *limit.Place, want time.Duration) {
	t.Helper()
	if wait, queued := p.Wait(); wait != want || !queued {
		t.Errorf("%s: Wait = %v, %t; want %v, true", name, wait, queued, want)
	}
}

// nowhere checks that p is in no queue.
func nowhere(t *testing.T, when string, p *limit.Place) {
	t.Helper()
	if wait, queued := p.Wait(); wait != 0 || queued {
		t.Errorf("%s: Wait = %v, %t; want 0, false", when, wait, queued)
	}
}

func TestF3PlaceTellsTheWait(t *testing.T) {
	o := limit.ConcurrencyOptions{Limit: 2, OverloadAfter: time.Second}
	eachQueued(t, o, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p, _ := admitted(t, l, t.Context()), admitted(t, l, t.Context())
		c1, normal1 := placed(t, l, limit.Normal)
		c2, normal2 := placed(t, l, limit.Normal)
		_, low := placed(t, l, limit.Low)
		c3, high := placed(t, l, limit.High)
		time.Sleep(100 * time.Millisecond)
		const first, every = 400 * time.Millisecond, 500 * time.Millisecond // two permits of 1 s
		inQueue(t, "high", high, first)
		inQueue(t, "normal 1", normal1, first+every)
		inQueue(t, "normal 2", normal2, first+2*every)
		inQueue(t, "low", low, first+3*every)

		p.Release(limit.Unused)
		p = c3.got(t, 100*time.Millisecond)
		nowhere(t, "admitted", high)
		inQueue(t, "normal 1", normal1, every) // a permit was issued just now
		c1.cancel(errGone)
		c1.lost(t, errGone, 100*time.Millisecond)
		nowhere(t, "gone", normal1)
		inQueue(t, "normal 2", normal2, every)
		inQueue(t, "low", low, 2*every)

		_, normal3 := placed(t, l, limit.Normal)
		inQueue(t, "normal 3", normal3, 2*every)
		time.Sleep(900*time.Millisecond + 1) // overload; the next permit is overdue
		inQueue(t, "normal 3, overload", normal3, 0)
		inQueue(t, "normal 2, overload", normal2, every)
		inQueue(t, "low, overload", low, 2*every)
		c2.cancel(errGone)
		c2.lost(t, errGone, time.Second+1)
		inQueue(t, "low, overload", low, every)
		p.Release(limit.Success)
	})
}

func TestF3PlaceBeforeAndAfterTheQueue(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1, MaxWait: time.Second}, func(t *testing.T, l queued) {
		var at limit.Place
		nowhere(t, "before", &at)
		ctx := limit.ContextWithPlace(t.Context(), &at)
		admitted(t, l, ctx)
		nowhere(t, "admitted at once", &at)

		w := start(l, ctx)
		inQueue(t, "first", &at, 0) // nothing is measured
		_, err := l.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		time.Sleep(time.Second)
		w.lost(t, limit.ErrLimited, time.Second)
		refused(t, w.err, limit.QueueTimeout)
		nowhere(t, "timed out", &at)

		low, lowAt := placed(t, l, limit.Low)
		start(l, ctx) // a place can be reused
		refused(t, low.err, limit.Displaced)
		nowhere(t, "displaced", lowAt)
		inQueue(t, "second time", &at, 0)
	})
}

func TestF3PlaceWithoutAQueue(t *testing.T) {
	var at limit.Place
	ctx := limit.ContextWithPlace(t.Context(), &at)
	other := limiterFunc(func(context.Context) (limit.Permit, error) { return limit.Permit{}, nil })
	acquired(t, other, ctx)
	nowhere(t, "a limiter from outside the package", &at)
	if err := at.Join(time.Now(), limit.High); err != nil {
		t.Errorf("Join = %v; want nil, because nothing is queued", err)
	}
}

func TestF3PlaceInARateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		first, ctx := limit.Place{}, t.Context()
		admitted(t, l, limit.ContextWithPlace(ctx, &first))
		nowhere(t, "admitted at once", &first)
		c1, at1 := placed(t, l, limit.Normal)
		c2, at2 := placed(t, l, limit.Normal)
		c3, at3 := placed(t, l, limit.High)
		time.Sleep(250 * time.Millisecond)
		inQueue(t, "first", at1, 750*time.Millisecond)
		inQueue(t, "second", at2, 1750*time.Millisecond)
		inQueue(t, "third", at3, 2750*time.Millisecond)

		// Join uses the same wait, and there are no classes to move up to.
		if err := at3.Join(time.Now().Add(2750*time.Millisecond+1), limit.High); err != nil {
			t.Errorf("Join = %v; want nil", err)
		}
		err := at3.Join(time.Now().Add(2750*time.Millisecond), limit.High)
		if e := refused(t, err, limit.WaitTooLong); e.RetryAfter != 2750*time.Millisecond {
			t.Errorf("RetryAfter = %v; want 2.75s", e.RetryAfter)
		}
		c2.cancel(errGone)
		c2.lost(t, errGone, 250*time.Millisecond)
		nowhere(t, "gone", at2)
		inQueue(t, "third, moved up", at3, 1750*time.Millisecond)
		time.Sleep(2 * time.Second)
		c1.got(t, time.Second)
		c3.got(t, 2*time.Second)
		nowhere(t, "admitted", at3)
		if err := at3.Join(time.Now(), limit.High); err != nil {
			t.Errorf("Join = %v; want nil, as it waits no more", err)
		}
		if s := l.Stats(); s.Refused[limit.WaitTooLong] != 1 || s.Refused.Total() != 1 {
			t.Errorf("Refused = %v; want one, for Join", s.Refused)
		}
	})
}

func TestF3JoinRefusesWhoCannotWaitThatLong(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Name: "db", Limit: 1, OverloadAfter: -1}, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		first, _ := placed(t, l, limit.Normal)
		w, at := placed(t, l, limit.Normal)
		time.Sleep(400 * time.Millisecond)
		for _, tt := range []struct {
			class limit.Priority
			wait  time.Duration
		}{
			{limit.Background, 1600 * time.Millisecond},
			{limit.Low, 1600 * time.Millisecond}, // the place would stay where it is
			{limit.Normal, 1600 * time.Millisecond},
			{limit.High, 600 * time.Millisecond}, // the place would move up
		} {
			err := at.Join(time.Now().Add(tt.wait), tt.class)
			if e := refused(t, err, limit.WaitTooLong); e.RetryAfter != 2600*time.Millisecond || e.Limiter != "db" {
				t.Errorf("class %v: rejection = %+v; want from db, after 2.6s", tt.class, e)
			}
			inQueue(t, "after a rejection", at, 1600*time.Millisecond)
		}
		for _, class := range []limit.Priority{limit.Background, limit.Low, limit.Normal} {
			if err := at.Join(time.Now().Add(1600*time.Millisecond+1), class); err != nil {
				t.Errorf("Join(class %v) = %v; want nil", class, err)
			}
			if err := at.Join(time.Time{}, class); err != nil {
				t.Errorf("Join(class %v) without a deadline = %v; want nil", class, err)
			}
			inQueue(t, "no higher class", at, 1600*time.Millisecond)
		}
		if s := statsOf(l); s.Refused[limit.WaitTooLong] != 4 || s.Refused.Total() != 4 || s.Queued != 2 {
			t.Errorf("Stats = %+v; want 4 rejections, 2 queued", s)
		}
		if err := at.Join(time.Now().Add(600*time.Millisecond+1), limit.High); err != nil {
			t.Errorf("Join = %v; want nil", err)
		}
		inQueue(t, "moved up", at, 600*time.Millisecond)
		if err := at.Join(time.Time{}, limit.Low); err != nil {
			t.Errorf("Join = %v; want nil", err)
		}
		inQueue(t, "not moved down", at, 600*time.Millisecond)
		p.Release(limit.Success)
		w.got(t, 400*time.Millisecond).Release(limit.Success)
		first.got(t, 400*time.Millisecond).Release(limit.Success)
		if err := at.Join(time.Now(), limit.High); err != nil {
			t.Errorf("Join = %v; want nil, as it waits no more", err)
		}
	})
}

// A place that moves up is the last of its new class, and under overload the newest
// one.
func TestF3JoinMovesUpBehindItsNewClass(t *testing.T) {
	for _, over := range []bool{false, true} {
		eachQueued(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: time.Second}, func(t *testing.T, l queued) {
			p := admitted(t, l, t.Context())
			up, at := placed(t, l, limit.Low)
			low, _ := placed(t, l, limit.Low)
			high, _ := placed(t, l, limit.High)
			took := time.Duration(0)
			if over {
				took = time.Second + 1
				time.Sleep(took)
			}
			at.Join(time.Time{}, limit.High)
			l.Check(t)
			order := []*call{high, up, low}
			if over {
				order = []*call{up, high, low}
			}
			for _, c := range order {
				p.Release(limit.Success)
				p = c.got(t, took)
			}
			p.Release(limit.Success)
		})
	}
}

// A place that moves up does not reset the age of the queue.
func TestF3JoinDoesNotEndTheOverload(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: time.Second}, func(t *testing.T, l queued) {
		admitted(t, l, t.Context())
		_, at := placed(t, l, limit.Low)
		time.Sleep(time.Second + 1)
		at.Join(time.Time{}, limit.High)
		if s := statsOf(l); !s.Overloaded || s.Queued != 1 {
			t.Errorf("Stats = %+v; want still overloaded", s)
		}
	})
}

// A place that moved up is no longer the first to be displaced.
func TestF3JoinProtectsFromDisplacement(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 2}, func(t *testing.T, l queued) {
		admitted(t, l, t.Context())
		other, _ := placed(t, l, limit.Low)
		joined, at := placed(t, l, limit.Low)
		at.Join(time.Time{}, limit.Normal)
		placed(t, l, limit.Normal)
		other.lost(t, limit.ErrLimited, 0)
		joined.waits(t)
	})
}

// The place is in the queue of the limiter, of several, that makes the caller wait.
func TestF3PlaceThroughAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		l := limit.All(r, c)
		p := admitted(t, l, t.Context())
		w, at := placed(t, l, limit.Low)
		inQueue(t, "for a token", at, time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		inQueue(t, "for a permit", at, 0) // nothing is measured yet
		if s := c.Stats(); s.Queued != 1 {
			t.Fatalf("Stats = %+v; want one in the queue", s)
		}
		other, _ := placed(t, c, limit.Normal)
		at.Join(time.Time{}, limit.High)
		p.Release(limit.Success)
		p = w.got(t, time.Second)
		nowhere(t, "admitted", at)
		other.waits(t)
		p.Release(limit.Success)
	})
}

func TestF3NilPlaceIsNone(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		w := start(l, limit.ContextWithPlace(t.Context(), nil))
		p.Release(limit.Success)
		w.got(t, 0).Release(limit.Success)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		w := start(l, limit.ContextWithPlace(t.Context(), nil))
		time.Sleep(time.Second)
		w.got(t, time.Second)
	})
}

// F3: if a caller joins a place before the first caller has queued, its class counts
// once that caller does.
func TestF3JoinBeforeTheQueue(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		normal, _ := placed(t, l, limit.Normal)
		var at limit.Place
		if err := at.Join(time.Now(), limit.High); err != nil {
			t.Errorf("Join before the queue = %v; want nil", err)
		}
		if err := at.Join(time.Time{}, limit.Low); err != nil {
			t.Errorf("Join before the queue = %v; want nil", err)
		}
		low := start(l, limit.ContextWithPlace(of(t, limit.Low), &at))
		low.waits(t)
		p.Release(limit.Success)
		low.got(t, 0).Release(limit.Success)
		normal.got(t, 0).Release(limit.Success)
	})
}
