package limit

import (
	"sync"
	"testing"
)

// Check walks c and reports what must never be.
func (c *Concurrency) Check(t testing.TB) { c.pool.check(t) }

// Check walks a and reports what must never be.
func (a *Adaptive) Check(t testing.TB) {
	a.pool.check(t)
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	u := a.pool.tuner
	if u.limit != a.pool.limit || u.limit < u.floor || u.limit > u.ceiling {
		t.Errorf("the tuner's limit is %d, the pool's %d; want the same, from %d to %d", u.limit, a.pool.limit, u.floor, u.ceiling)
	}
	if u.inFlight != a.pool.inUse {
		t.Errorf("the tuner counts %d in flight, and %d permits are in use", u.inFlight, a.pool.inUse)
	}
}

// SetLimit has the tuner of a find that the limit should be n. As always it
// holds from the next release on.
func (a *Adaptive) SetLimit(n int) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.pool.tuner.limit, a.pool.tuner.want = n, float64(n)
}

// WithDefaults returns what NewAdaptive makes of o.
func (o AdaptiveOptions) WithDefaults() AdaptiveOptions { return o.withDefaults() }

// highest is the highest limit that check has seen, by pool.
var highest sync.Map

func (c *pool) check(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse < 0 {
		t.Errorf("%d permits out of %d are in use", c.inUse, c.limit)
	}
	// With either, as a queue becomes an overload without an event.
	if c.q.n > 0 && c.fitsLocked(c.q.next(false).units, 0) && c.fitsLocked(c.q.next(true).units, 0) {
		t.Errorf("%d wait while %d of %d units are in use", c.q.n, c.inUse, c.limit)
	}
	loans, lent, units := 0, 0, 0
	for i := range c.slots {
		units += c.slots[i].units
		if c.slots[i].lender > 0 {
			loans++
		}
		if c.slots[i].lent {
			lent++
		}
	}
	if units != c.inUse || loans != lent {
		t.Errorf("the slots have %d units, %d loans, %d permits lent, and %d units in use", units, loans, lent, c.inUse)
	}
	most, _ := highest.LoadOrStore(c, c.limit)
	highest.Store(c, max(most.(int), c.limit))
	if c.tuner == nil && len(c.slots) > 2*max(most.(int), c.limit) { // each may have been lent once at a time
		t.Errorf("%d slots for %d permits", len(c.slots), c.limit)
	}
	n := 0
	for i := range c.q.of {
		c.q.of[i].check(t)
		n += c.q.of[i].n
	}
	if n != c.q.n {
		t.Errorf("the classes have %d waiters and the queue says %d", n, c.q.n)
	}
}

// Check walks l and reports what must never be.
func (l *RateLimiter) Check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.timer != nil) != (l.q.n > 0) {
		t.Errorf("timer running: %t, with %d in the queue", l.timer != nil, l.q.n)
	}
	l.q.check(t)
}

func (q *queue) check(t testing.TB) {
	t.Helper()
	n, units := 0, 0
	var prev *waiter
	for w := q.head; w != nil; prev, w = w, w.next {
		units += w.units
		if n++; !w.queued || w.granted || w.prev != prev {
			t.Errorf("waiter %d of %d is not linked right, or was let in", n, q.n)
		}
	}
	if n != q.n || units != q.units || q.tail != prev {
		t.Errorf("the queue has %d waiters for %d units and says %d and %d", n, units, q.n, q.units)
	}
}

// Stall keeps the timer of l from firing, as a stopped process would, until
// Tick.
func (l *RateLimiter) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
}

func (l *RateLimiter) Tick() { l.tick() }
