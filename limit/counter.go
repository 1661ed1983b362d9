package limit

import (
	"math"
	"time"
)

// A counter is the releaser of a permit of AcquireN of a RateLimiter, and counts what
// the permit took.
//
// A token that a call did not need goes back into the bucket, but not if it came back
// already, because the bucket would then get it twice:
//
//	A takes all 10 tokens, and after 9 s at 1 per second there are 9
//	B takes these 9
//	A needed none: the bucket gets 1, not 10, because if A had taken none, it would
//	  have been full for 9 s, and B would have left 1 in it
//
// Tokens come back in the order in which they were taken, as work leaves a queue. So a
// permit can return what is left of its tokens in that queue, and those taken after
// them move up. The bucket then has no more than if the returned tokens had never been
// taken: the queue would have served others in that time.
type counter struct {
	l          *RateLimiter
	n          int    // guarded by l.mu, as all below; tokens that the permit stands for
	held       int    // of them those that could be returned, unless they have come back
	end        int64  // of its last token in the queue, counted in tokens taken and not refunded
	era        uint64 // of the bucket
	forgiven   int    // tokens that it lacked and did not take
	over       bool   // it was released
	in         bool   // in l.counters
	prev, next *counter
}

// counters are those of permits that are not released, in the order in which they took
// their tokens. The zero counters is empty.
type counters struct{ first, last *counter }

func (s *counters) push(c *counter) {
	c.in, c.prev = true, s.last
	if s.last == nil {
		s.first = c
	} else {
		s.last.next = c
	}
	s.last = c
}

func (s *counters) remove(c *counter) {
	if !c.in {
		return
	}
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		s.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = false, nil, nil
}

// tookLocked notes that the tokens of c were just taken at t. It forgets counters whose
// tokens have all come back, so that callers that never release their permits leave
// nothing behind. c.l.mu must be held.
func (c *counter) tookLocked(t time.Time) {
	l := c.l
	unspent, net := l.bucket.unspent(t)
	for f := l.counters.first; f != nil && (f.era != l.bucket.era || float64(f.end-net)+unspent <= 0); f = l.counters.first {
		l.counters.remove(f)
	}
	c.held, c.end, c.era = c.n, net, l.bucket.era
	if !l.bucket.unlimited() {
		l.counters.push(c)
	}
}

// refundLocked returns up to n tokens of c to the bucket or to the head of the queue.
// Overdue tokens are handed out first, as in putBackLocked. c.l.mu must be held.
func (c *counter) refundLocked(n int, g *grants) {
	l := c.l
	now := time.Now()
	l.grantLocked(now, g)
	if !c.in || c.era != l.bucket.era {
		return
	}
	unspent, net := l.bucket.unspent(now)
	left := float64(c.end-net) + unspent // of its tokens, and those before them
	n = min(n, c.held, int(math.Floor(left+l.bucket.tolerance)))
	if n <= 0 {
		return
	}
	l.bucket.refund(now, n)
	l.returned += uint64(n)
	c.n -= n
	c.held -= n
	for o := c; o != nil; o = o.next {
		o.end -= int64(n)
	}
	l.againLocked(now, g)
}

// oweLocked takes n more tokens, for which the callers in the queue wait. c.l.mu must be
// held.
func (c *counter) oweLocked(n int, g *grants) {
	l := c.l
	now := time.Now()
	l.grantLocked(now, g)
	took := l.bucket.owe(now, n, l.maxDebt)
	l.owed += uint64(took)
	c.n += took
	l.againLocked(now, g)
}

// release implements releaser.
func (c *counter) release(_ uint64, o Outcome) {
	var g grants
	l := c.l
	l.mu.Lock()
	if !c.over && o == Unused {
		c.refundLocked(c.n, &g)
	}
	c.over = true
	l.counters.remove(c)
	l.mu.Unlock()
	g.wake()
}

// settle implements releaser.
// abandon implements releaser.
func (c *counter) abandon(uint64) {}

func (c *counter) settle(_ uint64, units int) {
	var g grants
	l := c.l
	l.mu.Lock()
	if !c.over {
		switch {
		case units < c.n:
			c.refundLocked(c.n-units, &g)
		case units > c.n:
			c.oweLocked(units-c.n, &g)
		}
		lacks := max(0, units-c.n)
		l.forgiven += uint64(lacks - c.forgiven) // also down, if some of them were taken now
		c.forgiven = lacks
	}
	l.mu.Unlock()
	g.wake()
}
