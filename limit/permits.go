package limit

import (
	"time"
)

// A slot is the place of one permit of a Concurrency that is out.
type slot struct {
	turn  uint32        // tells the permit in the slot from those before it
	since time.Duration // when the permit was given out
}

// admitLocked gives out a permit to a caller that did not wait. One must be
// free. c.mu must be held.
func (c *Concurrency) admitLocked(now time.Duration) Permit {
	c.admitted++
	return Permit{from: c, id: c.takeLocked(now)}
}

// takeLocked puts a permit into a slot and returns its id: the slot in the
// upper half, its turn in the lower. c.mu must be held.
func (c *Concurrency) takeLocked(now time.Duration) (id uint64) {
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.slots)))
		c.slots = append(c.slots, slot{})
	}
	last := len(c.free) - 1
	i := c.free[last]
	c.free = c.free[:last]
	c.slots[i].since = now
	c.inUse++
	c.lastOut = now
	return uint64(i)<<32 | uint64(c.slots[i].turn)
}

// release implements releaser.
func (c *Concurrency) release(id uint64, o Outcome) {
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
func (c *Concurrency) takeBackLocked(id uint64, o Outcome, now time.Duration, g *grants) {
	i, turn := uint32(id>>32), uint32(id)
	s := &c.slots[i]
	if s.turn != turn {
		return
	}
	s.turn++
	if o != Unused {
		c.drain.observe(now - s.since)
	}
	c.free = append(c.free, i)
	c.inUse--
	for c.inUse < c.limit && c.q.n > 0 {
		c.admitted++
		c.waited++
		g.add(c.q.pop(), c.takeLocked(now))
	}
}

// refuseLocked counts a refusal and returns its RetryAfter, where the expected
// wait is wait. c.mu must be held.
func (c *Concurrency) refuseLocked(r Reason, wait time.Duration) time.Duration {
	c.refused[r]++
	return c.drain.retry(wait)
}

// waitLocked is how long a newcomer at the end of the queue is expected to
// wait. c.mu must be held.
func (c *Concurrency) waitLocked(now time.Duration) time.Duration {
	return c.drain.wait(c.q.n, c.limit, now-c.lastOut)
}

// now is the time since c was made. It costs less than time.Now, and fits in a
// slot with half the room.
func (c *Concurrency) now() time.Duration { return time.Since(c.epoch) }
