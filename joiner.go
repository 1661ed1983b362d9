package weir

import (
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/wait"
)

// A joiner is a call on a flight. attachLocked creates it, and it ends with the
// flight's answer (waitForFlight) or with leave. The call defers leave, so that a caller
// whose hook panics or exits does not keep the flight alive.
type joiner[K comparable, V any] struct {
	flight *inflight.Flight[K, outcome[V]]
	taken  bool
	// inCrowd is the call in the flight's crowd; nil if no limiter or nested call
	// needs it. It is not in the call itself, which stays on its goroutine's stack.
	inCrowd *admit.Joiner
}

// end ends the lending of the call's permit.
func (j *joiner[K, V]) end() {
	j.taken = false
	if j.inCrowd != nil {
		j.inCrowd.Edge.End()
	}
}

// attachLocked records that the call is on f. The table's lock must be held.
func (c *call[K, V]) attachLocked(f *inflight.Flight[K, outcome[V]]) {
	c.joiner = joiner[K, V]{flight: f, taken: true}
	edge := lend.Between(c.within, &f.Load().Call)
	if edge != nil || c.g.o.Limiter != nil {
		c.joiner.inCrowd = &admit.Joiner{Demand: c.demand, Edge: edge}
		f.Value.crowd.Add(c.joiner.inCrowd)
	}
}

// leave takes the call off its flight, if it is on one. A load that is queued has the
// priority of the calls that stay. leave returns false if there is nothing left to
// leave, because the flight has its answer.
func (c *call[K, V]) leave() bool {
	if !c.joiner.taken {
		return false
	}
	g, f := c.g, c.joiner.flight
	c.joiner.end()
	g.flights.Lock()
	left, lost := f.LeaveLocked(g.o.AbandonGrace)
	if m := c.joiner.inCrowd; left && lost == nil && m != nil && f.Value.crowd.Remove(m) {
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

// waitForFlight waits until the flight has its answer or the call's context ends,
// whichever is first; if both are true, the answer wins. If the context ended,
// the call leaves the flight and the cause is returned.
func (c *call[K, V]) waitForFlight() error {
	f := c.joiner.flight
	if !f.Await(c.ctx, nil) && c.leave() {
		return wait.Cause(c.ctx)
	}
	<-f.Load().Done() // final, so it is closed or about to be
	c.joiner.end()
	return nil
}
