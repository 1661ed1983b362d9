package limit

import (
	"context"

	"github.com/weir-go/weir/internal/lend"
)

// A loan of a permit is a second slot, which is not counted in inUse and refers to
// the slot of the lender. Both permits are released like any other. The lender's
// permit returns to the pool when it has been released and its loan has ended. A
// loan can itself be lent.

var _ lend.Pool = (*pool)(nil)

// borrow returns a permit lent by a call that waits for the call of ctx. It does not
// read ctx unless some call waits for another.
func (c *pool) borrow(ctx context.Context) (Permit, bool) {
	if !lend.Any() {
		return Permit{}, false
	}
	p := placeOf(ctx)
	if p == nil || p.call == nil {
		return Permit{}, false
	}
	id, ok := p.call.Borrow(c)
	return Permit{from: c, id: id}, ok
}

// Lend implements lend.Pool.
func (c *pool) Lend(id uint64, from *lend.Call) (loan uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lendLocked(id, from)
}

// LendTo implements lend.Pool.
func (c *pool) LendTo(waiting any, id uint64, from *lend.Call) bool {
	w := waiting.(*waiter)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.queued {
		return true // it was admitted, or has left
	}
	loan, ok := c.lendLocked(id, from)
	if !ok {
		return false
	}
	c.q.leave(w)
	w.granted, w.loan, w.id = true, true, loan
	close(w.ready)
	return true
}

// lendLocked lends the permit with that id, which from holds. c.mu must be held.
func (c *pool) lendLocked(id uint64, from *lend.Call) (loan uint64, ok bool) {
	s := c.atLocked(id)
	if s == nil || s.lent {
		return 0, false
	}
	s.lent = true
	i := c.slotLocked() // s may have moved
	c.slots[i].lender, c.slots[i].from = uint32(id>>32)+1, from
	return c.idLocked(i), true
}

// appendHeld appends the permits of p that can be lent: those of pools, alone or
// within an All.
func (p Permit) appendHeld(held []lend.Held) []lend.Held {
	switch from := p.from.(type) {
	case *pool:
		held = append(held, lend.Held{Pool: from, ID: p.id})
	case *bundle:
		for _, part := range from.permits {
			held = part.appendHeld(held)
		}
	}
	return held
}
