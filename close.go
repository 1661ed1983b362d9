package weir

import "context"

// Close cancels the running loads, whose callers get ErrClosed, and waits
// until their functions have returned. If ctx ends first it returns a
// *CloseError, which says how many ignore their cancellation; it may be called
// again to go on waiting. Values that are fresh are still served afterwards;
// every other call returns ErrClosed.
//
// In a fleet it sends invalidations that the Tier has not acknowledged a last
// time. Those that are still not acknowledged are lost: the error is a
// *fleet.PendingError.
func (g *Guard[K, V]) Close(ctx context.Context) error {
	g.flights.Lock()
	first := !g.closed.Swap(true)
	ended := g.flights.FinishAllLocked(ErrClosed)
	if first {
		g.idleLocked()
	}
	g.flights.Unlock()
	for _, l := range ended {
		l.End(ErrClosed)
	}
	select {
	case <-g.idle:
		return g.leaveFleet(ctx)
	default:
	}
	select {
	case <-g.idle:
		return g.leaveFleet(ctx)
	case <-ctx.Done():
	}
	g.flights.Lock()
	defer g.flights.Unlock()
	return &CloseError{Running: g.flights.RunningLocked(), Reporting: g.telling, Cause: context.Cause(ctx)}
}

// leaveFleet waits until the leases of loads that were canceled are given up,
// which takes no longer than the Tier's deadline.
func (g *Guard[K, V]) leaveFleet(ctx context.Context) error {
	if g.fleet == nil {
		return nil
	}
	return g.fleet.Close(ctx)
}

// idleLocked notes that the Guard is closed and nothing of it runs any more.
// It is called when one of these has become true. The table's lock must be
// held.
func (g *Guard[K, V]) idleLocked() {
	if g.closed.Load() && g.flights.RunningLocked() == 0 && g.telling == 0 {
		close(g.idle)
	}
}
