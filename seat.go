package weir

import (
	"context"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
)

// A seat is a call's place on a flight. sitLocked takes it, and it ends with the
// flight's answer (settle) or with leave. The call defers leave, so that a caller
// whose hook panics or exits does not keep the flight alive.
type seat[K comparable, V any] struct {
	flight *inflight.Flight[K, outcome[V]]
	taken  bool
	member admit.Member // of the flight's crowd
}

// sitLocked notes that the call is on f. The table's lock must be held.
func (c *call[K, V]) sitLocked(f *inflight.Flight[K, outcome[V]]) {
	c.seat = seat[K, V]{flight: f, taken: true}
	m := &c.seat.member
	m.Demand, m.Edge = c.demand, lend.Between(c.within, &f.Load().Call)
	if m.Edge != nil || c.g.o.Limiter != nil {
		f.Value.crowd.Add(m)
	}
}

// leave takes the call off its flight, if it is on one. A load that is queued has
// the priority of those who stay. leave reports false if there is nothing to leave
// any more, as the flight's answer is there.
func (c *call[K, V]) leave() bool {
	if !c.seat.taken {
		return false
	}
	g, f := c.g, c.seat.flight
	c.seat.taken = false
	c.seat.member.Edge.End()
	g.flights.Lock()
	left, lost := f.LeaveLocked(g.o.AbandonGrace)
	if left && lost == nil && f.Value.crowd.Remove(&c.seat.member) {
		if l := f.Load(); l.Queue != nil {
			l.Queue.Leave(int8(g.demandLocked(l).Priority))
		}
	}
	g.flights.Unlock()
	if lost != nil {
		lost.End(ErrAbandoned)
	}
	return left
}

// settle waits until the flight has its answer or the call's context ends,
// whichever is first; an answer that is there wins. When the context ended the
// call has left, and the cause is returned.
func (c *call[K, V]) settle() error {
	f := c.seat.flight
	if !f.Await(c.ctx, nil) && c.leave() {
		return context.Cause(c.ctx)
	}
	<-f.Load().Done() // final, so it is closed or about to be
	c.seat.taken = false
	c.seat.member.Edge.End()
	return nil
}
