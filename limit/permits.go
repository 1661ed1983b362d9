package limit

import "time"

// A slot is the place of one permit of a pool that is out.
type slot struct {
	turn  uint32        // tells the permit in the slot from those before it
	since time.Duration // when the permit was given out
}

// admitLocked gives out a permit to a caller that did not wait. One must be
// free. c.mu must be held.
func (c *pool) admitLocked(now time.Duration) Permit {
	c.admitted++
	return Permit{from: c, id: c.takeLocked(now)}
}

// admitDryLocked is admitLocked for a caller that a dry run lets in, and that
// would have been refused with reason, or have queued if that is none. c.mu
// must be held.
func (c *pool) admitDryLocked(reason Reason, now time.Duration) Permit {
	if reason == 0 {
		c.wouldQ++
	} else {
		c.would[reason]++
	}
	return c.admitLocked(now)
}

// takeLocked puts a permit into a slot and returns its id: the slot in the
// upper half, its turn in the lower. c.mu must be held.
func (c *pool) takeLocked(now time.Duration) (id uint64) {
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.slots)))
		c.slots = append(c.slots, slot{})
	}
	last := len(c.free) - 1
	i := c.free[last]
	c.free = c.free[:last]
	c.slots[i].since = now
	if c.tuner != nil {
		c.tuner.began(now)
	}
	c.inUse++
	c.lastOut = now
	return uint64(i)<<32 | uint64(c.slots[i].turn)
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

// takeBackLocked ends the permit with that id and hands what is free to those
// who wait. An id whose permit was released before has an old turn, and
// nothing happens. c.mu must be held.
func (c *pool) takeBackLocked(id uint64, o Outcome, now time.Duration, g *grants) {
	i, turn := uint32(id>>32), uint32(id)
	s := &c.slots[i]
	if s.turn != turn {
		return
	}
	s.turn++
	held := now - s.since
	if o != Unused {
		c.drain.observe(held)
	}
	c.free = append(c.free, i)
	c.inUse--
	if c.tuner != nil {
		c.tuner.ended(now, held, o)
		c.limit = c.tuner.limit
	}
	c.letInLocked(now, g)
}

// letInLocked hands free permits to those who wait. c.mu must be held.
func (c *pool) letInLocked(now time.Duration, g *grants) {
	for c.inUse < c.limit && c.q.n > 0 {
		c.admitted++
		c.waited++
		g.add(c.q.pop(c.overloadedLocked(now)), c.takeLocked(now))
	}
}

// refuseLocked counts a refusal and returns its RetryAfter: the time until
// those who wait now are served. c.mu must be held.
func (c *pool) refuseLocked(r Reason, now time.Duration) time.Duration {
	c.refused[r]++
	return c.drain.retry(c.waitLocked(c.q.n, now))
}

// waitLocked is how long a caller with so many ahead of it in the queue is
// expected to wait. c.mu must be held.
func (c *pool) waitLocked(ahead int, now time.Duration) time.Duration {
	ahead += max(0, c.inUse-c.limit) // after a shrink these must come back first
	return c.drain.wait(ahead, c.limit, now-c.lastOut)
}

// now is the time since c was made. It costs less than time.Now, and fits in a
// slot with half the room.
func (c *pool) now() time.Duration { return time.Since(c.epoch) }
