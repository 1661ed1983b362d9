package limit

import (
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A slot is the place of one permit of a pool that is out, or of a loan: a permit
// in whose place another one runs (see lend.go).
type slot struct {
	turn  uint32        // tells the permit in the slot from those before it
	since time.Duration // when the permit was given out
	stood time.Duration // for how long the source had stood still by then, as the tuner counts it

	units  int        // that the permit counts for; 0 for a loan
	lender uint32     // of a loan: 1 + the slot of the permit that was lent; else 0
	from   *lend.Call // of a loan: the call that holds that permit
	lent   bool       // a loan runs in its place
	over   bool       // released, while a loan runs on
	worst  Outcome    // of those that ran in its place: Dropped, or Success
	result Outcome    // with over: what it was released with
}

// admitLocked gives out a permit for n units to a caller that did not wait. They
// must be free. c.mu must be held.
func (c *pool) admitLocked(now time.Duration, n int) Permit {
	c.admitted++
	return Permit{from: c, id: c.takeLocked(now, n)}
}

// admitDryLocked is admitLocked for a caller that a dry run lets in, and that
// would have been refused with reason, or have queued if that is none. c.mu
// must be held.
func (c *pool) admitDryLocked(reason Reason, now time.Duration, n int) Permit {
	if reason == 0 {
		c.wouldQ++
	} else {
		c.would[reason]++
	}
	return c.admitLocked(now, n)
}

// takeLocked puts a permit for n units into a slot and returns its id: the slot
// in the upper half, its turn in the lower. To a tuner it is n calls. c.mu must
// be held.
func (c *pool) takeLocked(now time.Duration, n int) (id uint64) {
	i := c.slotLocked()
	c.slots[i].since, c.slots[i].units = now, n
	if c.tuner != nil {
		for range n {
			c.slots[i].stood = c.tuner.began(now)
		}
	}
	c.inUse += n
	c.lastOut = now
	return c.idLocked(i)
}

// slotLocked returns a slot that holds no permit. c.mu must be held.
func (c *pool) slotLocked() uint32 {
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.slots)))
		c.slots = append(c.slots, slot{})
	}
	last := len(c.free) - 1
	i := c.free[last]
	c.free = c.free[:last]
	return i
}

// idLocked is the id of the permit in the ith slot. c.mu must be held.
func (c *pool) idLocked(i uint32) uint64 { return uint64(i)<<32 | uint64(c.slots[i].turn) }

// atLocked returns the slot of the permit with that id, or nil if the permit was
// released before. c.mu must be held.
func (c *pool) atLocked(id uint64) *slot {
	if s := &c.slots[id>>32]; s.turn == uint32(id) && !s.over {
		return s
	}
	return nil
}

// release implements releaser.
func (c *pool) release(id uint64, o Outcome) {
	now := c.now()
	var g grants
	c.mu.Lock()
	c.takeBackLocked(id, o, now, &g)
	c.mu.Unlock()
	g.wake()
}

// takeBackLocked ends the permit with that id and hands what is free to the callers
// that wait. An id whose permit was released before has an old turn, and nothing
// happens. A permit that is lent comes back when the loan does, and one that was
// a loan goes to its lender. c.mu must be held.
func (c *pool) takeBackLocked(id uint64, o Outcome, now time.Duration, g *grants) {
	s := c.atLocked(id)
	if s == nil {
		return
	}
	s.over, s.result = true, o
	for i := uint32(id >> 32); c.slots[i].over && !c.slots[i].lent; {
		s := c.slots[i]
		o := s.result
		if s.worst == Dropped {
			o = Dropped
		}
		c.slots[i] = slot{turn: s.turn + 1}
		c.free = append(c.free, i)
		if s.lender == 0 {
			c.returnLocked(s, o, now, g)
			return
		}
		i = s.lender - 1
		l := &c.slots[i]
		l.lent = false
		if o == Dropped {
			l.worst = Dropped
		}
		if !l.over {
			g.lender = s.from // it can be lent again
		}
	}
}

// returnLocked hands on the permit that was in s. c.mu must be held.
func (c *pool) returnLocked(s slot, o Outcome, now time.Duration, g *grants) {
	held := now - s.since
	if o != Unused {
		c.drain.observe(held)
	}
	c.inUse -= s.units
	if c.tuner != nil {
		for range s.units {
			c.tuner.ended(now, held, s.stood, o)
		}
		c.limit = c.tuner.limit
	}
	c.letInLocked(now, g)
}

// fitsLocked reports whether n units are free, with spare left. More units than
// the limit, which has shrunk since they were requested, fit when all others
// are back: else their caller would never be served. c.mu must be held.
func (c *pool) fitsLocked(n, spare int) bool {
	return c.inUse+n+spare <= c.limit || c.inUse == 0 && n > c.limit
}

// letInLocked hands free permits to the callers that wait, in their turn: none passes
// the first, which may want more units than are free. It is called when units come
// back, and when somebody else is first. c.mu must be held.
func (c *pool) letInLocked(now time.Duration, g *grants) {
	for c.q.n > 0 {
		w := c.q.next(c.overloadedLocked(now))
		if !c.fitsLocked(w.units, 0) {
			return
		}
		c.q.remove(w)
		c.admitted++
		c.waited++
		g.add(w, c.takeLocked(now, w.units))
	}
}

// refuseLocked counts a refusal and returns its RetryAfter: the time until
// the callers that wait now are served. c.mu must be held.
func (c *pool) refuseLocked(r Reason, now time.Duration) time.Duration {
	c.refused[r]++
	return c.drain.retry(c.waitLocked(c.q.units, now))
}

// waitLocked is how long a caller with so many units ahead of it in the queue is
// expected to wait for one. c.mu must be held.
func (c *pool) waitLocked(ahead int, now time.Duration) time.Duration {
	ahead += max(0, c.inUse-c.limit) // after a shrink these must come back first
	return c.drain.wait(ahead, c.limit, now-c.lastOut)
}

// now is the time since c was made. It costs less than time.Now, and fits in a
// slot with half the room.
func (c *pool) now() time.Duration { return time.Since(c.epoch) }
