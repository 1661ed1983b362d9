package limit

import (
	"slices"
	"time"
)

// Refusals counts rejections by Reason, as in s.Refused[limit.QueueFull].
type Refusals [reasonEnd]uint64

// Total returns the sum over all reasons.
func (r Refusals) Total() uint64 {
	var n uint64
	for _, of := range r {
		n += of
	}
	return n
}

// ConcurrencyStats holds the counters of a [Concurrency] since it was created, and
// its current state. All values are from the same instant.
type ConcurrencyStats struct {
	Limit  int // units in total, at present; without AcquireN each permit is one
	InUse  int // units in use
	Queued int // callers that wait

	Admitted uint64   // callers that got a permit, at once or after a wait
	Waited   uint64   // admitted callers that queued first
	Left     uint64   // callers whose context ended in the queue
	Refused  Refusals // callers that were rejected

	// Held is the running mean of how long a permit is held, 0 until the
	// first one has been released.
	Held time.Duration
	// Wait is how long a newcomer at the end of the queue would wait, at the
	// measured drain rate. It is 0 if a permit is free.
	Wait time.Duration
	// Overloaded is true if waiting does not end in time in a class of the queue:
	// its newest callers are then served first.
	Overloaded bool
	// Storm is true while the limit of a Concurrency is lowered, because most calls have
	// ended too late. Storms counts how often that has begun, and Late the calls.
	Storm  bool
	Storms uint64
	Late   uint64
	// Tenants is how many tenants have callers that wait, not counting that of callers
	// without one: see [Tenant].
	Tenants int
}

// Stats returns a snapshot.
func (c *Concurrency) Stats() ConcurrencyStats {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.statsLocked()
}

// statsLocked returns a snapshot. c.mu must be held.
func (c *pool) statsLocked() ConcurrencyStats {
	now, tenants := c.now(), c.q.tenants()
	s := ConcurrencyStats{
		Limit:      c.limit,
		InUse:      c.inUse,
		Queued:     c.q.n,
		Admitted:   c.admitted,
		Waited:     c.waited,
		Left:       c.left,
		Refused:    c.refused,
		Storm:      c.storm.limit > 0,
		Storms:     c.storm.count,
		Late:       c.storm.lates,
		Held:       nanoseconds(c.drain.held),
		Overloaded: slices.ContainsFunc(tenants, func(t *tenant) bool { return c.lateLocked(t, now).any() }),
	}
	for _, t := range tenants {
		if t != &c.q.none {
			s.Tenants++
		}
	}
	if c.inUse >= c.limit {
		s.Wait = c.waitLocked(c.q.units, now)
	}
	return s
}

// AdaptiveStats holds the counters of an [Adaptive] since it was created, its
// measurements of the source, and its current state. All values are from the same
// instant.
type AdaptiveStats struct {
	ConcurrencyStats

	// Baseline is the estimated latency of the source with capacity to spare, 0
	// before the first window.
	Baseline time.Duration
	// Latency is the mean latency of the last window.
	Latency time.Duration
	// Knee is the estimated number of calls in progress that saturates the source.
	Knee float64

	// WouldWait and WouldRefuse count callers of a dry run: those that would have
	// queued, and those that would have been rejected at once.
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

// RateStats holds the counters of a [RateLimiter] since it was created, and its
// current state. All values are from the same instant.
type RateStats struct {
	PerSecond float64 // permits per second; +Inf without a limit
	Burst     int     // most permits that can be taken in one burst
	Tokens    float64 // in the bucket, up to Burst; negative if some are owed; +Inf without a limit
	Queued    int     // callers and reservations that wait

	Admitted uint64   // callers and reservations that got a token, at once or after a wait
	Waited   uint64   // admitted callers that queued first
	Left     uint64   // callers whose context ended, and reservations canceled, in the queue
	Returned uint64   // tokens returned: of calls that did not start, and of estimates that were too high
	Owed     uint64   // tokens taken after the call, because the estimate was too low
	Forgiven uint64   // tokens that were not taken after the call, because of MaxDebt
	Refused  Refusals // callers that were rejected
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
		Owed:      l.owed,
		Forgiven:  l.forgiven,
		Refused:   l.refused,
	}
}
