package limit

import "time"

// Refusals counts refusals by Reason, as in s.Refused[limit.QueueFull].
type Refusals [reasonEnd]uint64

// Total returns the sum over all reasons.
func (r Refusals) Total() uint64 {
	var n uint64
	for _, of := range r {
		n += of
	}
	return n
}

// ConcurrencyStats is what a [Concurrency] has done since it was made, and how
// it stands. All of it was true at the same instant.
type ConcurrencyStats struct {
	Limit  int // units in all; without AcquireN each permit is one
	InUse  int // units that are out
	Queued int // callers that wait

	Admitted uint64   // callers that got a permit, waited or not
	Waited   uint64   // of those, the ones that queued for it
	Left     uint64   // callers whose context ended in the queue
	Refused  Refusals // callers that were refused

	// Held is the running mean of how long a permit is held, 0 until the
	// first one has come back.
	Held time.Duration
	// Wait is how long a newcomer at the end of the queue would wait, by the
	// measured drain rate, if none is free now.
	Wait time.Duration
	// Overloaded says that the queue has been standing for longer than
	// OverloadAfter: the newest in it are served first.
	Overloaded bool
}

// Stats returns a snapshot.
func (c *Concurrency) Stats() ConcurrencyStats {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.statsLocked()
}

// statsLocked returns a snapshot. c.mu must be held.
func (c *pool) statsLocked() ConcurrencyStats {
	now := c.now()
	s := ConcurrencyStats{
		Limit:      c.limit,
		InUse:      c.inUse,
		Queued:     c.q.n,
		Admitted:   c.admitted,
		Waited:     c.waited,
		Left:       c.left,
		Refused:    c.refused,
		Held:       nanoseconds(c.drain.held),
		Overloaded: c.overloadedLocked(now),
	}
	if c.inUse >= c.limit {
		s.Wait = c.waitLocked(c.q.units, now)
	}
	return s
}

// AdaptiveStats is what an [Adaptive] has done since it was made, what it knows
// of its source, and how it stands. All of it was true at the same instant.
type AdaptiveStats struct {
	ConcurrencyStats

	// Baseline is the latency of the source with room to spare, as far as it is
	// known, 0 before the first window.
	Baseline time.Duration
	// Latency is the mean latency of the last window.
	Latency time.Duration
	// Knee is the number of calls in progress that the source can just take, as
	// far as it is known.
	Knee float64

	// WouldWait and WouldRefuse count what a dry run would have done: callers
	// that would have queued, and that would have been refused at once.
	WouldWait   uint64
	WouldRefuse Refusals
}

// Stats returns a snapshot.
func (a *Adaptive) Stats() AdaptiveStats {
	c := &a.pool
	c.mu.Lock()
	defer c.mu.Unlock()
	return AdaptiveStats{
		ConcurrencyStats: c.statsLocked(),
		Baseline:         nanoseconds(c.tuner.curve.base),
		Latency:          nanoseconds(c.tuner.latency),
		Knee:             c.tuner.curve.knee,
		WouldWait:        c.wouldQ,
		WouldRefuse:      c.would,
	}
}

// RateStats is what a [RateLimiter] has done since it was made, and how it
// stands. All of it was true at the same instant.
type RateStats struct {
	PerSecond float64
	Burst     int
	Tokens    float64 // in the bucket, up to Burst; +Inf without a limit
	Queued    int     // callers and reservations that wait

	Admitted uint64   // callers and reservations that got a token, waited or not
	Waited   uint64   // of those, the ones that queued for it
	Left     uint64   // callers whose context ended, and reservations canceled, in the queue
	Returned uint64   // tokens given back unused
	Refused  Refusals // callers that were refused
}

// Stats returns a snapshot.
func (l *RateLimiter) Stats() RateStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return RateStats{
		PerSecond: l.bucket.perSecond,
		Burst:     l.bucket.burst,
		Tokens:    l.bucket.tokens(time.Now()),
		Queued:    l.q.n,
		Admitted:  l.admitted,
		Waited:    l.waited,
		Left:      l.left,
		Returned:  l.returned,
		Refused:   l.refused,
	}
}
