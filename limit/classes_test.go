package limit_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// servedOrder queues a caller of each class in l, which has one permit and is idle.
// It returns the order in which they are admitted.
func servedOrder(t *testing.T, l queued, classes ...limit.Priority) []int {
	t.Helper()
	p := admitted(t, l, t.Context())
	var calls []*call
	for _, class := range classes {
		calls = append(calls, start(l, of(t, class)))
	}
	var order []int
	for range calls {
		l.Check(t)
		p.Release(limit.Success)
		synctest.Wait()
		for i, c := range calls {
			if c.back.Load() && !slices.Contains(order, i) {
				order = append(order, i)
				p = c.got(t, 0)
			}
		}
	}
	p.Release(limit.Success)
	return order
}

func TestB4ClassesAreServedHighestFirst(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		got := servedOrder(t, l, limit.Low, limit.Normal, limit.High, limit.Low, limit.Normal, limit.High)
		if want := []int{2, 5, 1, 4, 0, 3}; !slices.Equal(got, want) {
			t.Errorf("served %v; want %v: highest class first, in order of arrival within a class", got, want)
		}
	})
}

func TestB4ValuesBetweenClassesCountAsTheLower(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		got := servedOrder(t, l, limit.Low, limit.Normal-1, limit.Low+1, limit.Normal, limit.High-1, limit.Normal+1, limit.High, 127)
		if want := []int{6, 7, 3, 4, 5, 0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("served %v; want %v", got, want)
		}
		p := admitted(t, l, t.Context())
		for _, class := range []limit.Priority{limit.Low - 1, limit.Background, -128} {
			_, err := l.Acquire(of(t, class))
			refused(t, err, limit.NoSpare)
		}
		p.Release(limit.Success)
	})
}

func TestB4BackgroundNeverQueues(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		p := admitted(t, l, background(t))
		_, err := l.Acquire(background(t))
		refused(t, err, limit.NoSpare)
		w := start(l, of(t, limit.Low))
		_, err = l.Acquire(background(t))
		refused(t, err, limit.NoSpare)
		p.Release(limit.Success)
		w.got(t, 0).Release(limit.Success)
		admitted(t, l, background(t)).Release(limit.Success)
		if s := statsOf(l); s.Refused[limit.NoSpare] != 2 || s.Refused.Total() != 2 || s.Waited != 1 {
			t.Errorf("Stats = %+v; want two rejections with NoSpare, one caller that waited", s)
		}
	})
}

// B2: background work never takes the last permits of an Adaptive either.
func TestB4AdaptiveBackgroundLeavesATenth(t *testing.T) {
	for _, tt := range []struct{ limit, want int }{{1, 1}, {2, 1}, {10, 9}, {19, 18}, {20, 18}, {100, 90}} {
		a := newAdaptive(t, limit.AdaptiveOptions{Initial: tt.limit, Max: tt.limit})
		for i := range tt.want {
			if _, err := a.Acquire(background(t)); err != nil {
				t.Fatalf("limit %d: Acquire %d in the background = %v; want %d permits", tt.limit, i, err, tt.want)
			}
		}
		_, err := a.Acquire(background(t))
		refused(t, err, limit.NoSpare)
		for range tt.limit - tt.want {
			if _, err := a.Acquire(of(t, limit.Low)); err != nil {
				t.Errorf("limit %d: Acquire = %v; want the rest of the permits for other classes", tt.limit, err)
			}
		}
		_, err = a.TryAcquire()
		refused(t, err, limit.QueueFull)
	}
}

// B4: deadline-aware. The expected wait counts only the callers that are served
// first: here one permit, held 1 s with 600 ms to go, and two Normal callers in the
// queue.
func TestB4RefusesAtOnceByTheTurnOfItsClass(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 1}, func(t *testing.T, l queued) {
		held(t, l, time.Second)
		p := admitted(t, l, t.Context())
		time.Sleep(400 * time.Millisecond)
		calls := []*call{start(l, t.Context()), start(l, t.Context())}
		for _, tt := range []struct {
			class limit.Priority
			wait  time.Duration
		}{
			{limit.High, 600 * time.Millisecond},
			{limit.Normal, 2600 * time.Millisecond},
			{limit.Low, 2600 * time.Millisecond},
		} {
			_, err := l.Acquire(deadline(t, tt.class, tt.wait))
			if e := refused(t, err, limit.WaitTooLong); e.RetryAfter != 2600*time.Millisecond {
				t.Errorf("class %v: RetryAfter = %v; want 2.6s, the time to serve the queue", tt.class, e.RetryAfter)
			}
			w := start(l, deadline(t, tt.class, tt.wait+1))
			w.waits(t)
			w.cancel(errGone)
			w.lost(t, errGone, 0)
		}
		p.Release(limit.Success)
		for _, c := range calls {
			c.got(t, 0).Release(limit.Success)
		}
	})
}

// deadline returns a context of class p that ends d from now.
func deadline(t *testing.T, p limit.Priority, d time.Duration) context.Context {
	return limit.ContextWithPriority(within(t, d), p)
}

// A waiter of a low class is served after callers of higher classes came and went.
func TestB4LowIsServedOnceNobodyElseWaits(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 2}, func(t *testing.T, l queued) {
		a, b := admitted(t, l, t.Context()), admitted(t, l, t.Context())
		low, high := start(l, of(t, limit.Low)), start(l, of(t, limit.High))
		time.Sleep(time.Second)
		a.Release(limit.Success)
		low.waits(t)
		high.got(t, time.Second).Release(limit.Success)
		low.got(t, time.Second).Release(limit.Success)
		b.Release(limit.Success)
	})
}
