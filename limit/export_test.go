package limit

import (
	"maps"
	"slices"
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
	if c.q.n > 0 {
		next := &c.q.next().line
		if c.fitsLocked(next.next(late{}).units, 0) && c.fitsLocked(next.next(late{true, true, true}).units, 0) {
			t.Errorf("%d callers wait although the next one fits: %d of %d units are in use", c.q.n, c.inUse, c.limit)
		}
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
	most, _ := highest.LoadOrStore(c, max(c.limit, c.whole)) // in a storm, the limit was c.whole before
	highest.Store(c, max(most.(int), c.limit, c.whole))
	if c.tuner == nil && len(c.slots)/2 > max(most.(int), c.limit) { // each may have been lent once at a time
		t.Errorf("%d slots for %d permits", len(c.slots), c.limit)
	}
	c.q.check(t)
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

// Known returns how many tenants c knows, groups included.
func (c *Concurrency) Known() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	n := 0
	for i := range c.pool.q.roots {
		n += c.pool.q.roots[i].known()
	}
	return n
}

func (t *tenant) known() int {
	n := len(t.children)
	for _, c := range t.children {
		n += c.known()
	}
	return n
}

// check walks q and reports violated invariants.
func (q *lines) check(t testing.TB) {
	t.Helper()
	if q.none.parent == nil {
		return
	}
	n, units := 0, 0
	for i := range q.roots {
		root, more := &q.roots[i], []*tenant(nil)
		if root == q.none.parent {
			more = append(more, &q.none)
		}
		waiting, u, _ := root.check(t, more...)
		if n, units = n+waiting, units+u; root.units != u {
			t.Errorf("the callers of class %d request %d units; it counts %d", i, u, root.units)
		}
	}
	if n != q.n || units != q.units {
		t.Errorf("the lines have %d waiters for %d units; the queue counts %d and %d", n, units, q.n, q.units)
	}
	for i, b := range q.bills {
		if b.at != i || i > 0 && b.before(q.bills[(i-1)/2]) || b.tenant == nil {
			t.Errorf("bill %d of %d is out of place", i, len(q.bills))
		}
	}
}

func (n *tenant) check(t testing.TB, more ...*tenant) (waiting, units, holds int) {
	t.Helper()
	var weights int64
	turns := 0
	for _, c := range append(more, slices.Collect(maps.Values(n.children))...) {
		w, u, h := c.check(t)
		if len(c.children) == 0 {
			w, u, h = c.line.n, c.line.units, c.holds
			for i := range c.line.of {
				c.line.of[i].check(t)
			}
		}
		if w != c.waiting || u != c.units || h != c.holds {
			t.Errorf("tenant %+v has %d waiters for %d units and %d in use; it counts %d, %d and %d", c.name, w, u, h, c.waiting, c.units, c.holds)
		}
		if c.waiting > 0 {
			turns++
			weights += c.weight
			if n.turns[c.atTurn].tenant != c || n.loads[c.atLoad].tenant != c {
				t.Errorf("tenant %+v is not where it should be", c.name)
			}
		} else if c.bills == 0 && c.name != (tenantName{}) && (!c.owes || n.debtors[c.atTurn].tenant != c) {
			t.Errorf("tenant %+v is known without a reason", c.name)
		}
		waiting, units, holds = waiting+w, units+u, holds+h
	}
	if turns != len(n.turns) || turns != len(n.loads) || weights != n.weights {
		t.Errorf("%+v has %d tenants in turn and %d by load, of weight %d; want %d, of %d", n.name, len(n.turns), len(n.loads), n.weights, turns, weights)
	}
	return waiting, units, holds
}
