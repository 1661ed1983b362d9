package weir

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/inflight"
)

// minMargin is the least time before its deadline at which a caller takes a stale
// value. It is a twentieth of the caller's time if that is more.
const minMargin = time.Millisecond

// softEnd returns the instant from which a caller that has waited for f since
// since takes a stale value, and the reason. why is nil if there is no such
// instant.
func (c *call[K, V]) softEnd(f *inflight.Flight[K, outcome[V]], since instant) (end instant, why *TimeoutError) {
	if d := c.softTimeout(); d > 0 {
		end, why = later(f.Began, d), &TimeoutError{After: d, Soft: true}
	}
	deadline, ok := c.ctx.Deadline()
	if !ok {
		return end, why
	}
	now, left := c.g.clock(), time.Until(deadline)
	last := now + min(int64(left), 0) - since
	if left > 0 {
		last = later(now, left) - since
	}
	patience := max(last-max(last/20, int64(minMargin)), 0)
	if at := later(since, time.Duration(patience)); why == nil || at < end {
		end, why = at, &TimeoutError{After: time.Duration(patience), Soft: true, Caller: true}
	}
	return end, why
}

// timedOut reports whether the caller's deadline ended its context. A caller
// that was canceled leaves; one that only woke late still gets its stale value.
func (c *call[K, V]) timedOut() bool { return c.ctx.Err() == context.DeadlineExceeded }

// waitSoft waits until the caller's soft timeout. If f is not done by then, and
// memory has a value to serve, the caller leaves with it and the Guard stays on
// the flight instead. Then waitSoft sets r. Otherwise it returns false, and the caller
// keeps waiting.
func (c *call[K, V]) waitSoft(r *Result[V]) bool {
	g, f := c.g, c.joiner.flight
	if _, limited := c.ctx.Deadline(); c.policy.NoStale || !limited && c.softTimeout() == 0 {
		return false
	}
	if e := g.lookup(c.key); g.fleet == nil && !c.servesOnError(e, g.clock()) { // a fleet may add an entry
		return false
	}
	end, why := c.softEnd(f, c.since)
	// If the time is already over, a GetMany has waited for another key. The
	// stale value was then available before its context ended.
	if left := time.Duration(end - g.clock()); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		if f.Await(c.ctx, timer.C) || c.ctx.Err() != nil && !(c.timedOut() && g.clock() >= end) {
			return false
		}
	}
	e, now := g.lookup(c.key), g.clock()
	if !c.servesOnError(e, now) {
		return false
	}
	set := now < e.freshUntil && !c.forced // set meanwhile: no caller needs the load any more
	if !set {
		g.flights.Lock()
		f.Load().PinLocked()
		g.flights.Unlock()
	}
	if !c.leave() {
		return false // the result has just come
	}
	*r = c.standIn(e, now, why)
	return true
}

// passSoft is pass for a caller that takes a stale value. In a fleet the wait
// may be long: until the Tier has answered, or its deadline has passed.
func (c *call[K, V]) passSoft(f *inflight.Flight[K, outcome[V]], r *Result[V]) bool {
	g := c.g
	end, why := c.softEnd(f, g.clock())
	if g.fleet == nil || why == nil || c.forced || c.policy.NoStale {
		c.pass(f)
		return false
	}
	timer := time.NewTimer(time.Duration(end - g.clock()))
	defer timer.Stop()
	select {
	case <-f.Load().Done():
		return false
	case <-c.ctx.Done():
		if !c.timedOut() {
			return false
		}
	case <-timer.C:
	}
	e, now := g.lookup(c.key), g.clock()
	if !c.servesOnError(e, now) || now < e.freshUntil {
		c.pass(f)
		return false
	}
	c.counts(&g.count.joins)
	*r = g.staleOnError(c.ctx, c.key, e, now, why)
	return true
}
