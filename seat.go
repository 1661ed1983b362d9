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
	// member is the call in the flight's crowd; nil where nobody asks for it. Apart
	// from the call, which stays on its goroutine's stack.
	member *admit.Member
}

// end ends what the call lends.
func (s *seat[K, V]) end() {
	s.taken = false
	if s.member != nil {
		s.member.Edge.End()
	}
}

// sitLocked notes that the call is on f. The table's lock must be held.
func (c *call[K, V]) sitLocked(f *inflight.Flight[K, outcome[V]]) {
	c.seat = seat[K, V]{flight: f, taken: true}
	edge := lend.Between(c.within, &f.Load().Call)
	if edge != nil || c.g.o.Limiter != nil {
		c.seat.member = &admit.Member{Demand: c.demand, Edge: edge}
		f.Value.crowd.Add(c.seat.member)
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
	c.seat.end()
	g.flights.Lock()
	left, lost := f.LeaveLocked(g.o.AbandonGrace)
	if m := c.seat.member; left && lost == nil && m != nil && f.Value.crowd.Remove(m) {
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
	c.seat.end()
	return nil
}
