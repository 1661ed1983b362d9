package admit

import (
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/limit"
)

// A Crowd is the callers who wait for one call now. Its zero value is empty. It
// is guarded by a lock of the owner's.
type Crowd struct {
	first *Joiner
	n     int
	top   limit.Priority // the highest
	atTop int            // how many have it

	until   Demand // the latest deadline, unless it has to be looked for
	unknown bool
}

// A Joiner is one caller of a Crowd. It must not be moved or used again while it is in
// one.
type Joiner struct {
	Demand Demand
	Edge   *lend.Edge // nil: the caller is no call of ours

	in         bool
	prev, next *Joiner
}

// Add puts m into c. m must be in no other.
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

// Remove takes m out of c, and reports whether that has lowered its priority, or
// left nobody.
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

// Priority returns the highest of the callers, and whether there are any.
func (c *Crowd) Priority() (limit.Priority, bool) { return c.top, c.n > 0 }

// Demand returns what all who are there bring, and whether there are any.
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

// Move notes that those of c wait for another call now.
func (c *Crowd) Move(to *lend.Call) {
	for m := c.first; m != nil; m = m.next {
		m.Edge.Move(to)
	}
}
