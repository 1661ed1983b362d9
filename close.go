package weir

import (
	"context"

	"github.com/weir-go/weir/internal/wait"
)

// Close cancels the running loads, whose callers get ErrClosed, and waits until
// their functions have returned. If ctx ends first it returns a *CloseError
// with the number of loads that ignore their cancellation; call it again to
// keep waiting. Fresh values are still served afterwards; every other call
// returns ErrClosed.
//
// In a fleet fresh values are served until the loads have ended. Then the Guard
// leaves the fleet, no longer learns what others invalidate, and returns ErrClosed
// for every key. Close tries once more to send the invalidations that the Tier has
// not acknowledged. Those that remain unacknowledged are lost: the error is a
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
	return &CloseError{Running: g.flights.RunningLocked(), Reporting: g.telling, Cause: wait.Cause(ctx)}
}

// leaveFleet waits until the leases of loads that were canceled are given up,
// which takes no longer than the Tier's deadline.
func (g *Guard[K, V]) leaveFleet(ctx context.Context) error {
	if g.fleet == nil {
		return nil
	}
	g.demoteAll() // from here on pushes are missed, and a closed Guard serves nothing stale
	return g.fleet.Close(ctx)
}

// idleLocked marks the Guard as idle if it is closed and nothing runs any more.
// It is called whenever one of the two becomes true. The table's lock must be
// held.
func (g *Guard[K, V]) idleLocked() {
	if g.closed.Load() && g.flights.RunningLocked() == 0 && g.telling == 0 {
		close(g.idle)
	}
}
