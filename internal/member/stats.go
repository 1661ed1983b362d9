package member

import "sync/atomic"

// Stats are counts of what a Member has asked, and of what it was told.
type Stats struct {
	Acquires, Fresh, Granted, Held, Cooling uint64
	Settled, Refused, Extended, LostLeases  uint64
	Writes, TagReads, Unavailable           uint64
	Waits, Pushes, Resets                   uint64

	Pending          int    // invalidations that the engine has not acknowledged, now
	Blocked          bool   // one of them is of everything
	Queued, Replayed uint64 // invalidations that became pending, and that were acknowledged then
	Overflows        uint64 // how often there were too many
	Histories        uint64 // how often the engine was found to have lost history
}

type counters struct {
	acquires, fresh, granted, held, cooling atomic.Uint64
	settled, refused, extended, lost        atomic.Uint64
	writes, tagReads, unavailable           atomic.Uint64
	waits, pushes, resets                   atomic.Uint64
	queued, replayed, overflows, histories  atomic.Uint64
}

// Stats returns the counts.
func (m *Member) Stats() Stats {
	c := &m.count
	m.mu.Lock()
	p := m.pendingLocked()
	m.mu.Unlock()
	return Stats{
		Pending: p.Count, Blocked: p.Blocked, Queued: c.queued.Load(), Replayed: c.replayed.Load(), Overflows: c.overflows.Load(), Histories: c.histories.Load(),
		Acquires: c.acquires.Load(), Fresh: c.fresh.Load(), Granted: c.granted.Load(), Held: c.held.Load(), Cooling: c.cooling.Load(),
		Settled: c.settled.Load(), Refused: c.refused.Load(), Extended: c.extended.Load(), LostLeases: c.lost.Load(),
		Writes: c.writes.Load(), TagReads: c.tagReads.Load(), Unavailable: c.unavailable.Load(),
		Waits: c.waits.Load(), Pushes: c.pushes.Load(), Resets: c.resets.Load(),
	}
}
