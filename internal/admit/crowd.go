package admit

import (
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/limit"
)

// A Crowd is the set of callers that wait for one call. Its zero value is empty.
// The owner must guard it with a lock.
type Crowd struct {
	first *Joiner
	n     int
	top   limit.Priority // the highest priority
	atTop int            // number of callers with that priority

	until   Demand // the latest deadline, unless it must be searched for
	unknown bool
}

// A Joiner is one caller of a Crowd. It must not be moved or reused while it is
// in one.
type Joiner struct {
	Demand Demand
	Edge   *lend.Edge // nil: the caller is not within a Call

	in         bool
	prev, next *Joiner
}

// Add puts m into c. m must not be in another Crowd.
func (c *Crowd) Add(m *Joiner) {
	m.in, m.prev, m.next = true, nil, c.first
	if c.first != nil {
		c.first.prev = m
	}
	c.first = m
	c.n++
	switch p := m.Demand.Priority; {
	case c.n == 1:
		c.top, c.atTop, c.until, c.unknown = p, 1, m.Demand, false
		return
	case p > c.top:
		c.top, c.atTop = p, 1
	case p == c.top:
		c.atTop++
	}
	if m.Demand.Outlasts(c.until) {
		c.until = m.Demand
	}
}

// Remove takes m out of c. It reports whether that lowered the priority or left c
// empty.
func (c *Crowd) Remove(m *Joiner) (lower bool) {
	if !m.in {
		return false
	}
	if m.prev == nil {
		c.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.in, m.prev, m.next = false, nil, nil
	c.n--
	c.unknown = c.unknown || m.Demand.Until.Equal(c.until.Until)
	if m.Demand.Priority < c.top {
		return false
	}
	if c.atTop--; c.atTop > 0 {
		return false
	}
	c.top, c.atTop = limit.Background, 0
	for o := c.first; o != nil; o = o.next {
		switch p := o.Demand.Priority; {
		case c.atTop == 0 || p > c.top:
			c.top, c.atTop = p, 1
		case p == c.top:
			c.atTop++
		}
	}
	return true
}

// Priority returns the highest priority of the callers, and whether there are
// any.
func (c *Crowd) Priority() (limit.Priority, bool) { return c.top, c.n > 0 }

// Demand returns the combined demand of the current callers, and whether there
// are any.
func (c *Crowd) Demand() (Demand, bool) {
	if c.n == 0 {
		return Demand{}, false
	}
	if c.unknown {
		c.until, c.unknown = c.first.Demand, false
		for m := c.first.next; m != nil; m = m.next {
			if m.Demand.Outlasts(c.until) {
				c.until = m.Demand
			}
		}
	}
	return Demand{Until: c.until.Until, Priority: c.top}, true
}

// Move records that the callers of c now wait for another call.
func (c *Crowd) Move(to *lend.Call) {
	for m := c.first; m != nil; m = m.next {
		m.Edge.Move(to)
	}
}
