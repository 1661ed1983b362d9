package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestPriorityTravelsInTheContext(t *testing.T) {
	if p := limit.PriorityOf(t.Context()); p != limit.Normal {
		t.Errorf("PriorityOf = %v; want Normal", p)
	}
	low := background(t)
	if p := limit.PriorityOf(low); p != limit.Background {
		t.Errorf("PriorityOf = %v; want Background", p)
	}
	if p := limit.PriorityOf(limit.ContextWithPriority(low, limit.Normal)); p != limit.Normal {
		t.Errorf("PriorityOf = %v; want Normal again", p)
	}
}

// B2: background work never takes the last permits.
func TestConcurrencyBackgroundLeavesTheReserve(t *testing.T) {
	for _, tt := range []struct{ limit, reserve, want int }{
		{1, 0, 1}, // one permit cannot be both reserved and handed out
		{2, 0, 1},
		{10, 0, 9},
		{100, 0, 90},
		{10, 4, 6},
		{10, 9, 1},
		{10, -1, 10},
	} {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: tt.limit, Reserve: tt.reserve})
		got := 0
		for {
			_, err := c.Acquire(background(t))
			if err != nil {
				refused(t, err, limit.NoSpare)
				break
			}
			got++
		}
		if got != tt.want {
			t.Errorf("Limit %d, Reserve %d: background got %d permits; want %d", tt.limit, tt.reserve, got, tt.want)
		}
		for range tt.limit - got { // the rest is left for other classes
			if _, err := c.Acquire(t.Context()); err != nil {
				t.Errorf("Limit %d, Reserve %d: Acquire = %v; want a permit", tt.limit, tt.reserve, err)
			}
		}
	}
}

func TestConcurrencyBackgroundNeverQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		p := admitted(t, c, t.Context())
		w := start(c, t.Context())
		_, err := c.Acquire(background(t))
		refused(t, err, limit.NoSpare)
		p.Release(limit.Success)
		p = w.got(t, 0)
		p.Release(limit.Success)
		admitted(t, c, background(t))
	})
}

func TestRateBackgroundLeavesOneToken(t *testing.T) {
	for _, tt := range []struct{ burst, want int }{{1, 1}, {2, 1}, {5, 4}} {
		synctest.Test(t, func(t *testing.T) {
			l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: tt.burst})
			for range tt.want {
				admitted(t, l, background(t))
			}
			_, err := l.Acquire(background(t))
			if e := refused(t, err, limit.NoSpare); e.RetryAfter != time.Second {
				t.Errorf("Burst %d: RetryAfter = %v; want 1s", tt.burst, e.RetryAfter)
			}
			time.Sleep(time.Second)
			admitted(t, l, background(t))
		})
	}
}

func TestRateBackgroundNeverQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 2})
		admitted(t, l, t.Context())
		admitted(t, l, t.Context())
		a, b := start(l, t.Context()), start(l, t.Context())
		_, err := l.Acquire(background(t))
		if e := refused(t, err, limit.NoSpare); e.RetryAfter != 4*time.Second {
			t.Errorf("RetryAfter = %v; want 4s: two before it, one for it, one to spare", e.RetryAfter)
		}
		time.Sleep(2 * time.Second)
		a.got(t, time.Second)
		b.got(t, 2*time.Second)
	})
}
