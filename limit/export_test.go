package limit

import (
	"sync"
	"testing"

	"github.com/weir-go/weir/internal/spread"
)

// The tests of this package expect the least RetryAfter, unless they say otherwise.
func init() { spread.Fix(func() float64 { return 0 }) }

// Check walks c and reports violated invariants.
func (c *Concurrency) Check(t testing.TB) { c.pool.check(t) }

// Check walks a and reports violated invariants.
func (a *Adaptive) Check(t testing.TB) {
	a.pool.check(t)
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	u := a.pool.tuner
	if u.limit != a.pool.limit || u.limit < u.floor || u.limit > u.ceiling {
		t.Errorf("the tuner's limit is %d, the pool's %d; want both equal, from %d to %d", u.limit, a.pool.limit, u.floor, u.ceiling)
	}
	if u.inFlight != a.pool.inUse {
		t.Errorf("the tuner counts %d calls in flight, but %d permits are in use", u.inFlight, a.pool.inUse)
	}
}

// SetLimit sets the limit of a's tuner to n. As with any change by the tuner, it takes
// effect at the next release.
func (a *Adaptive) SetLimit(n int) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.pool.tuner.limit, a.pool.tuner.want = n, float64(n)
}

// WithDefaults returns o with the defaults of NewAdaptive.
func (o AdaptiveOptions) WithDefaults() AdaptiveOptions { return o.withDefaults() }

// highest holds the highest limit that check has seen, by pool.
var highest sync.Map

func (c *pool) check(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse < 0 {
		t.Errorf("%d permits out of %d are in use", c.inUse, c.limit)
	}
	// Check both orders, because a class becomes late without an event.
	if c.q.n > 0 && c.fitsLocked(c.q.next(late{}).units, 0) && c.fitsLocked(c.q.next(late{true, true, true}).units, 0) {
		t.Errorf("%d callers wait although the next one fits: %d of %d units are in use", c.q.n, c.inUse, c.limit)
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
		t.Errorf("the slots have %d units, %d loans and %d permits lent; %d units are in use", units, loans, lent, c.inUse)
	}
	most, _ := highest.LoadOrStore(c, c.limit)
	highest.Store(c, max(most.(int), c.limit))
	if c.tuner == nil && len(c.slots)/2 > max(most.(int), c.limit) { // each may have been lent once at a time
		t.Errorf("%d slots for %d permits", len(c.slots), c.limit)
	}
	n := 0
	for i := range c.q.of {
		c.q.of[i].check(t)
		n += c.q.of[i].n
	}
	if n != c.q.n {
		t.Errorf("the classes have %d waiters; the queue counts %d", n, c.q.n)
	}
}

// Check walks l and reports violated invariants.
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
			t.Errorf("waiter %d of %d is linked incorrectly, or was already admitted", n, q.n)
		}
	}
	if n != q.n || units != q.units || q.tail != prev {
		t.Errorf("the queue has %d waiters for %d units, and counts %d and %d", n, units, q.n, q.units)
	}
}

// Stall keeps the timer of l from firing until Tick, as in a stopped process.
func (l *RateLimiter) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
}

func (l *RateLimiter) Tick() { l.tick() }
