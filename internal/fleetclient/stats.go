package fleetclient

import "sync/atomic"

// Stats counts a Client's calls and their results.
type Stats struct {
	Open bool // the circuit breaker in front of the engine is open

	Acquires, Fresh, Granted, Held, Cooling uint64
	Settled, Refused, Extended, LostLeases  uint64
	Writes, TagReads, Unavailable           uint64
	Waits, Pushes, Resets                   uint64

	Foreign                uint64 // entries that are no Value, or one of another Codec
	PushedKept, PushedUsed uint64 // pushed values, and those that answered an Ask

	Pending          int    // invalidations that the engine has not acknowledged, at present
	Blocked          bool   // one of them is of everything
	Queued, Replayed uint64 // invalidations that became pending, and those acknowledged later
	Overflows        uint64 // how often too many were pending
	Histories        uint64 // how often the engine was found to have lost history
}

type counters struct {
	acquires, fresh, granted, held, cooling atomic.Uint64
	settled, refused, extended, lost        atomic.Uint64
	writes, tagReads, unavailable           atomic.Uint64
	waits, pushes, resets                   atomic.Uint64
	foreign, pushedKept, pushedUsed         atomic.Uint64
	queued, replayed, overflows, histories  atomic.Uint64
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	n := &c.count
	c.mu.Lock()
	p := c.pendingLocked()
	c.mu.Unlock()
	open := c.state != nil && c.state().Open
	return Stats{
		Open:    open,
		Pending: p.Count, Blocked: p.Blocked, Queued: n.queued.Load(), Replayed: n.replayed.Load(), Overflows: n.overflows.Load(), Histories: n.histories.Load(),
		Acquires: n.acquires.Load(), Fresh: n.fresh.Load(), Granted: n.granted.Load(), Held: n.held.Load(), Cooling: n.cooling.Load(),
		Settled: n.settled.Load(), Refused: n.refused.Load(), Extended: n.extended.Load(), LostLeases: n.lost.Load(),
		Writes: n.writes.Load(), TagReads: n.tagReads.Load(), Unavailable: n.unavailable.Load(),
		Waits: n.waits.Load(), Pushes: n.pushes.Load(), Resets: n.resets.Load(),
		Foreign: n.foreign.Load(), PushedKept: n.pushedKept.Load(), PushedUsed: n.pushedUsed.Load(),
	}
}
