package limit

import (
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A slot holds one issued permit of a pool, or a loan of another permit (see
// lend.go).
type slot struct {
	turn  uint32        // distinguishes the permit in the slot from earlier ones
	since time.Duration // when the permit was issued
	wait  time.Duration // for how long its caller had waited by then
	stood time.Duration // how long the source had stood still by then, as counted by the tuner

	units  int        // that the permit counts for; 0 for a loan
	bill   *bill      // nil for a permit that was free
	counts bool       // the units can be settled
	lender uint32     // of a loan: 1 + the slot of the permit that was lent; else 0
	from   *lend.Call // of a loan: the call that holds that permit
	lent   bool       // a loan of it is in use
	late   bool       // its callers have left, and it has been counted as late
	left   bool       // its callers have left
	over   bool       // released; a loan of it may still be in use
	worst  Outcome    // of its loans: Dropped or Success
	result Outcome    // with over: the outcome at release
}

// admitLocked issues a permit for n units to a caller that did not wait. The units
// must be free. c.mu must be held.
func (c *pool) admitLocked(now time.Duration, n int, counted bool) Permit {
	c.admitted++
	c.q.free = now // one was, until now
	return Permit{from: c, id: c.takeLocked(now, n, counted)}
}

// admitDryLocked is admitLocked for a caller that is admitted only because of the
// dry run. It would have been rejected with reason, or queued if reason is 0. With
// TooMany it counts as the whole limit, as in settle: n may be any number, and the tuner
// takes a step for each unit. c.mu must be held.
func (c *pool) admitDryLocked(reason Reason, now time.Duration, n int, counted bool) Permit {
	if reason == 0 {
		c.wouldQ++
	} else {
		c.would[reason]++
	}
	return c.admitLocked(now, min(n, c.mostLocked()), counted)
}

// takeLocked puts a permit for n units into a slot and returns its id, which has the
// slot in the upper half and the turn in the lower. The tuner counts it as n calls.
// c.mu must be held.
func (c *pool) takeLocked(now time.Duration, n int, counted bool) (id uint64) {
	i := c.slotLocked()
	c.slots[i].since, c.slots[i].units, c.slots[i].counts = now, n, counted
	if c.tuner != nil {
		for range n {
			c.slots[i].stood = c.tuner.began(now)
		}
	}
	c.inUse += n
	c.lastOut = now
	return c.idLocked(i)
}

// slotLocked returns a free slot. c.mu must be held.
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

// idLocked returns the id of the permit in the ith slot. c.mu must be held.
func (c *pool) idLocked(i uint32) uint64 { return uint64(i)<<32 | uint64(c.slots[i].turn) }

// atLocked returns the slot of the permit with that id, or nil if the permit has
// already been released. c.mu must be held.
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

// settle implements releaser. Units that are given back go to waiting callers. Units
// that were missing are in use from now on, even beyond the limit, as after the limit
// has shrunk.
func (c *pool) settle(id uint64, units int) {
	now := c.now()
	var g grants
	c.mu.Lock()
	if s := c.atLocked(id); s != nil && s.counts {
		more := min(units, max(c.mostLocked(), s.units)) - s.units
		s.units += more
		c.inUse += more
		if s.bill != nil {
			c.q.resize(s.bill, s.units)
		}
		if c.tuner != nil {
			for range more {
				c.tuner.began(now)
			}
			for range -more {
				c.tuner.ended(now, 0, 0, Unused)
			}
		}
		c.letInLocked(now, &g)
	}
	c.mu.Unlock()
	g.wake()
}

// takeBackLocked ends the permit with that id and grants free units to waiting
// callers. If the permit has already been released, its turn is outdated and nothing
// happens. A permit that is lent returns to the pool when its loan ends, and a loan
// returns to its lender. c.mu must be held.
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

// returnLocked returns the units of the permit that was in s, and admits waiting
// callers. c.mu must be held.
func (c *pool) returnLocked(s slot, o Outcome, now time.Duration, g *grants) {
	held := now - s.since
	c.countLocked(&s, o, now, g)
	c.inUse -= s.units
	if c.tuner != nil {
		for range s.units {
			c.tuner.ended(now, held, s.stood, o)
		}
		c.limit = c.tuner.limit
	}
	if o != Unused {
		c.drain.observe(held, c.limit)
	}
	if s.bill != nil {
		c.q.settle(s.bill, now, held, o != Unused)
	}
	c.letInLocked(now, g)
	if c.q.n == 0 && c.inUse < c.limit {
		c.q.idle(now)
	}
}

// abandon implements releaser.
func (c *pool) abandon(id uint64) {
	now := c.now()
	var g grants
	c.mu.Lock()
	if s := c.atLocked(id); s != nil && !s.left && s.lender == 0 {
		s.left = true
		if s.wait > 0 && float64(now-s.since) < c.callLocked() {
			c.lineLocked(s).late(s.wait + now - s.since)
		}
		if c.tuner == nil && c.storm.tooOld(now-s.since) {
			s.late = true
			c.isLateLocked(s.since, now, &g)
			c.letInLocked(now, &g)
		}
	}
	c.mu.Unlock()
	g.wake()
}

// lineLocked returns the patience of the callers in whose line the permit of s was waited for.
// c.mu must be held.
func (c *pool) lineLocked(s *slot) *patience {
	if s.bill != nil {
		return &s.bill.tenant.left
	}
	return &c.q.none.left
}

// countLocked counts the call whose permit was in s for the storm. c.mu must be held.
func (c *pool) countLocked(s *slot, o Outcome, now time.Duration, g *grants) {
	switch {
	case c.tuner != nil || o == Unused || s.late:
	case s.left, o == Dropped && c.storm.usual > 0:
		if c.storm.tooOld(now - s.since) {
			c.isLateLocked(s.since, now, g)
		}
	case o == Success:
		c.setLocked(c.storm.isInTime(s.since, now, bounds{c.whole, c.least, c.inUse, c.q.n}), g)
	}
}

// isLateLocked counts a late call for the storm. c.mu must be held.
func (c *pool) isLateLocked(since, now time.Duration, g *grants) {
	c.setLocked(c.storm.isLate(since, now, bounds{c.whole, c.least, c.inUse, c.q.n}), g)
}

// setLocked sets the limit that the storm wants. c.mu must be held.
func (c *pool) setLocked(limit int, g *grants) {
	was := c.stormy
	c.limit, c.stormy = limit, c.storm.limit > 0
	if c.onStorm != nil && was != c.stormy {
		g.onStorm, g.storm = c.onStorm, Storm{c.name, c.stormy, limit}
	}
}

// fitsLocked reports whether n units are free and spare units remain. If n is more
// than the limit, which may have shrunk since the request, it fits when no other unit
// is in use; otherwise its caller would never be served. c.mu must be held.
func (c *pool) fitsLocked(n, spare int) bool {
	return n <= c.limit-c.inUse-spare || c.inUse == 0 && n > c.limit
}

// letInLocked grants free units to waiting callers in turn. No caller passes the
// first one, which may need more units than are free. It is called when units are
// returned and when the first waiter changes. c.mu must be held.
func (c *pool) letInLocked(now time.Duration, g *grants) {
	for c.q.n > 0 {
		c.q.pay(now)
		t := c.q.next()
		late := c.lateLocked(t, now)
		w := t.line.next(late)
		if !c.fitsLocked(w.units, 0) {
			return
		}
		if !late[w.class] {
			t.left.granted(w, now, c.callLocked())
		}
		c.admitted++
		c.waited++
		bill := c.q.admit(w, now, c.drain)
		id := c.takeLocked(now, w.units, w.counted)
		c.slots[id>>32].bill, c.slots[id>>32].wait = bill, now-w.joined
		g.add(w, id)
	}
}

// refuseLocked counts a rejection and returns its RetryAfter: a time spread above the
// expected time until the callers that wait now have been served. c.mu must be held.
func (c *pool) refuseLocked(r Reason, now time.Duration) time.Duration {
	c.refused[r]++
	return c.drain.retry(c.waitLocked(c.q.units, now), c.mostRetry)
}

// waitLocked returns the expected wait of a caller with ahead units before it in the
// queue. c.mu must be held.
func (c *pool) waitLocked(ahead int, now time.Duration) time.Duration {
	ahead += max(0, c.inUse-c.limit) // after the limit has shrunk, these must be released first
	return c.drain.wait(ahead, c.limit, now-c.lastOut)
}

// now returns the time since c was created. It is cheaper than time.Now, and takes
// half the space in a slot.
func (c *pool) now() time.Duration { return time.Since(c.epoch) }
