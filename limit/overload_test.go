package limit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestB4NewestFirstOnceTheOldestHasWaitedForOverloadAfter(t *testing.T) {
	for _, tt := range []struct {
		after, standing time.Duration
		newest          bool
	}{
		{time.Second, time.Second, false},
		{time.Second, time.Second + 1, true},
		{0, 1000 * time.Hour, false}, // without a bound
		{1, 2, true},
		{-1, 1000 * time.Hour, false},
	} {
		t.Run(fmt.Sprint(tt.after, " ", tt.standing), func(t *testing.T) {
			o := limit.ConcurrencyOptions{Limit: 1, MaxWait: -1, OverloadAfter: tt.after}
			eachQueued(t, o, func(t *testing.T, l queued) {
				p := admitted(t, l, t.Context())
				oldest := start(l, t.Context())
				time.Sleep(tt.standing - 1)
				newest := start(l, t.Context())
				time.Sleep(time.Nanosecond)
				if s := statsOf(l); s.Overloaded != tt.newest {
					t.Errorf("Overloaded = %t; want %t", s.Overloaded, tt.newest)
				}
				p.Release(limit.Unused)
				first, second, took := oldest, newest, tt.standing
				if tt.newest {
					first, second, took = newest, oldest, 1
				}
				p = first.got(t, took)
				second.waits(t)
				p.Release(limit.Unused)
				second.got(t, tt.standing+1-took).Release(limit.Unused)
			})
		})
	}
}

func TestB4OverloadEndsWhenTheQueueIsEmpty(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: time.Second}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		w := start(l, t.Context())
		time.Sleep(2 * time.Second)
		p.Release(limit.Success)
		p = w.got(t, 2*time.Second) // the queue is empty, if only for an instant
		a, b := start(l, t.Context()), start(l, t.Context())
		time.Sleep(time.Second)
		p.Release(limit.Success)
		p = a.got(t, time.Second)
		time.Sleep(time.Nanosecond)
		c := start(l, t.Context())
		p.Release(limit.Success)
		c.got(t, 0).Release(limit.Success) // the queue has not been empty for more than a second
		b.got(t, time.Second+1).Release(limit.Success)
	})
}

// The class counts before the age.
func TestB4OverloadIsNewestFirstWithinTheClass(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: time.Second}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		var calls []*call
		for _, class := range []limit.Priority{limit.High, limit.High, limit.Normal, limit.Normal, limit.Low} {
			calls = append(calls, start(l, of(t, class)))
		}
		time.Sleep(time.Second + 1)
		for _, i := range []int{1, 0, 3, 2, 4} {
			p.Release(limit.Success)
			p = calls[i].got(t, time.Second+1)
		}
		p.Release(limit.Success)
	})
}

// B4: deadline-aware under overload too. A newcomer is served before all others
// of its class.
func TestB4OverloadCountsOnlyHigherClassesAhead(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: 1}, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		calls := []*call{start(l, of(t, limit.High)), start(l, t.Context()), start(l, of(t, limit.Low))}
		time.Sleep(500 * time.Millisecond)
		for _, tt := range []struct {
			class limit.Priority
			wait  time.Duration
		}{
			{limit.High, 500 * time.Millisecond},
			{limit.Normal, 1500 * time.Millisecond},
			{limit.Low, 2500 * time.Millisecond},
		} {
			_, err := l.Acquire(deadline(t, tt.class, tt.wait))
			refused(t, err, limit.WaitTooLong)
			w := start(l, deadline(t, tt.class, tt.wait+1))
			w.waits(t)
			w.cancel(errGone)
			w.lost(t, errGone, 0)
		}
		for _, c := range calls {
			c.cancel(errGone)
		}
		p.Release(limit.Success)
	})
}

// displaced checks that the call was displaced after took, with RetryAfter retry.
func (c *call) displaced(t *testing.T, took, retry time.Duration) {
	t.Helper()
	c.lost(t, limit.ErrLimited, took)
	if e := refused(t, c.err, limit.Displaced); e.RetryAfter != retry || e.Limiter != "db" {
		t.Errorf("rejection = %+v; want from db, after %v", e, retry)
	}
}

func TestB4FullQueueGivesThePlaceOfTheNewestOfALowerClass(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: 3}, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		low1, low2, normal := start(l, of(t, limit.Low)), start(l, of(t, limit.Low)), start(l, t.Context())
		_, err := l.Acquire(of(t, limit.Low))
		if e := refused(t, err, limit.QueueFull); e.RetryAfter != 4*time.Second {
			t.Errorf("RetryAfter = %v; want 4s, the time to serve the queue", e.RetryAfter)
		}
		high := []*call{start(l, of(t, limit.High))}
		low2.displaced(t, 0, 4*time.Second)
		high = append(high, start(l, of(t, limit.High)))
		low1.displaced(t, 0, 4*time.Second)
		_, err = l.Acquire(t.Context())
		refused(t, err, limit.QueueFull) // no waiter has a lower class
		time.Sleep(50 * time.Millisecond)
		high = append(high, start(l, of(t, limit.High)))
		normal.displaced(t, 50*time.Millisecond, 3950*time.Millisecond)
		_, err = l.Acquire(of(t, limit.High))
		refused(t, err, limit.QueueFull)
		if s := statsOf(l); s.Refused[limit.Displaced] != 3 || s.Refused[limit.QueueFull] != 3 || s.Refused.Total() != 6 || s.Queued != 3 || s.Left != 0 {
			t.Errorf("Stats = %+v; want 3 displaced, 3 rejected because the queue is full, 3 queued", s)
		}
		for i, took := range []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 0} {
			p.Release(limit.Success)
			p = high[i].got(t, took)
		}
		p.Release(limit.Success)
	})
}

func TestB4OverloadedFullQueueGivesThePlaceOfTheOldestOfTheLowestClass(t *testing.T) {
	o := limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: 5, OverloadAfter: time.Second, MaxWait: -1}
	eachQueued(t, o, func(t *testing.T, l queued) {
		admitted(t, l, t.Context())
		low1, normal1, low2 := start(l, of(t, limit.Low)), start(l, t.Context()), start(l, of(t, limit.Low))
		normal2, high1 := start(l, t.Context()), start(l, of(t, limit.High))
		after := time.Second + 1
		time.Sleep(after)
		newcomer := func(class limit.Priority, victim *call, took time.Duration) *call {
			t.Helper()
			c := start(l, of(t, class))
			victim.displaced(t, took, time.Second) // nothing is measured yet
			c.waits(t)
			return c
		}
		low3 := newcomer(limit.Low, low1, after)
		newcomer(limit.Normal, low2, after)
		newcomer(limit.High, low3, 0)
		_, err := l.Acquire(of(t, limit.Low))
		refused(t, err, limit.QueueFull) // it would be served last
		newcomer(limit.Normal, normal1, after)
		newcomer(limit.High, normal2, after)
		high1.waits(t)
		if s := statsOf(l); !s.Overloaded || s.Refused[limit.Displaced] != 5 || s.Refused.Total() != 6 {
			t.Errorf("Stats = %+v; want overloaded, 5 displaced, 1 rejected", s)
		}
	})
}

// In a queue of one, the newcomer that displaces the oldest caller has its place for as long.
func TestB4OverloadEndsWithTheCallerThatWaitedTooLong(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: 1, OverloadAfter: time.Second}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		w := start(l, t.Context())
		_, err := l.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		for range 3 {
			time.Sleep(time.Second + 1)
			next := start(l, t.Context())
			w.displaced(t, time.Second+1, time.Second)
			_, err := l.Acquire(t.Context())
			refused(t, err, limit.QueueFull)
			w = next
		}
		p.Release(limit.Unused)
		w.got(t, 0).Release(limit.Unused)
	})
}

// B4: a queue that is full in time displaces waiters like one that is full in places.
func TestB4BudgetInTimeDisplacesToo(t *testing.T) {
	o := limit.ConcurrencyOptions{Name: "db", Limit: 1, MaxWait: 2 * time.Second, OverloadAfter: time.Second}
	eachQueued(t, o, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		low1, low2 := start(l, of(t, limit.Low)), start(l, of(t, limit.Low)) // 2 s of work
		_, err := l.Acquire(of(t, limit.Low))
		refused(t, err, limit.QueueFull)
		normal := start(l, t.Context())
		low2.displaced(t, 0, 3*time.Second)
		time.Sleep(time.Second + 1) // the source is late, no permit has been released yet
		low3 := start(l, of(t, limit.Low))
		low3.waits(t) // 2 s of work again, because the permit is due any time now
		low4 := start(l, of(t, limit.Low))
		low1.displaced(t, time.Second+1, 3*time.Second)
		p.Release(limit.Unused)
		p = normal.got(t, time.Second+1)
		p.Release(limit.Unused)
		low3.got(t, 0).Release(limit.Unused) // it has not waited for OverloadAfter
		low4.got(t, 0).Release(limit.Unused)
	})
}

func TestB4WhoCannotMeetItsDeadlineDisplacesNobody(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1}, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		low := start(l, of(t, limit.Low))
		_, err := l.Acquire(deadline(t, limit.High, time.Second))
		refused(t, err, limit.WaitTooLong)
		low.waits(t)
		p.Release(limit.Success)
		low.got(t, 0).Release(limit.Success)
	})
}

func TestB4BackgroundDisplacesNobody(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1, OverloadAfter: 1}, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		low := start(l, of(t, limit.Low))
		time.Sleep(time.Second) // low is now the oldest, and the queue is overloaded
		_, err := l.Acquire(background(t))
		refused(t, err, limit.NoSpare)
		_, err = l.TryAcquire()
		refused(t, err, limit.QueueFull) // TryAcquire displaces no waiter either
		low.waits(t)
		p.Release(limit.Success)
		low.got(t, time.Second).Release(limit.Success)
	})
}

// If the context of a displaced waiter ends at the same instant, the waiter gets that
// error and is counted as left.
func TestB4DisplacedAndGoneIsCountedOnce(t *testing.T) {
	check := func(t *testing.T, l queued) {
		t.Helper()
		if s := statsOf(l); s.Left != 1 || s.Refused.Total() != 0 || s.Queued != 1 {
			t.Fatalf("Stats = %+v; want 1 left, none rejected, 1 queued", s)
		}
	}
	o := limit.ConcurrencyOptions{Limit: 1, Queue: 1}
	eachQueued(t, o, func(t *testing.T, l queued) {
		p := admitted(t, l, t.Context())
		ctx := &mute{Context: of(t, limit.Low)} // its end is seen after the displacement
		low := startBare(l, ctx)
		ctx.ended.Store(true)
		high := start(l, of(t, limit.High))
		low.lost(t, errGone, 0)
		check(t, l)
		p.Release(limit.Success)
		high.got(t, 0).Release(limit.Success)
	})
	for range 50 { // the order depends on the scheduler
		eachQueued(t, o, func(t *testing.T, l queued) {
			p := admitted(t, l, t.Context())
			low := start(l, of(t, limit.Low))
			low.cancel(errGone)
			high := start(l, of(t, limit.High))
			low.lost(t, errGone, 0)
			check(t, l)
			p.Release(limit.Success)
			high.got(t, 0).Release(limit.Success)
		})
	}
}

// A waiter displaced at the instant of MaxWait is counted as one rejection.
func TestB4DisplacedAtTheInstantOfMaxWaitIsRefusedOnce(t *testing.T) {
	o := limit.ConcurrencyOptions{Limit: 1, Queue: 1, MaxWait: time.Second}
	for range 50 {
		eachQueued(t, o, func(t *testing.T, l queued) {
			p := admitted(t, l, t.Context())
			low := start(l, of(t, limit.Low))
			time.Sleep(time.Second)
			high := start(l, of(t, limit.High))
			low.lost(t, limit.ErrLimited, time.Second)
			if s := statsOf(l); s.Refused[limit.Displaced]+s.Refused[limit.QueueTimeout] != 1 || s.Refused.Total() != 1 {
				t.Fatalf("Refused = %v; want one", s.Refused)
			}
			p.Release(limit.Success)
			high.got(t, 0).Release(limit.Success)
		})
	}
}

// If the deadline comes at the instant of MaxWait, the caller counts as left, not as
// rejected.
func TestB4DeadlineAtTheInstantOfMaxWaitIsNoRefusal(t *testing.T) {
	for range 50 {
		eachQueued(t, limit.ConcurrencyOptions{Limit: 1, MaxWait: time.Second}, func(t *testing.T, l queued) {
			admitted(t, l, t.Context())
			w := start(l, within(t, time.Second))
			time.Sleep(time.Second + 1)
			w.lost(t, context.DeadlineExceeded, time.Second)
			if s := statsOf(l); s.Left != 1 || s.Refused.Total() != 0 {
				t.Fatalf("Stats = %+v; want 1 left, none rejected", s)
			}
		})
	}
}
