package weir

import (
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// joinLocked puts the call on f. If f is queued for admission and could not be
// admitted within the caller's deadline, the caller is refused instead: another
// with more time may go on waiting for f. The table's lock must be held.
func (c *call[K, V]) joinLocked(f *inflight.Flight[K, outcome[V]]) error {
	g := c.g
	if err := queueLocked(f.Load(), c.demand); err != nil {
		return err
	}
	f.JoinLocked()
	c.attachLocked(f)
	if g.batches != nil {
		g.batches.GrantLocked() // if it was a refresh, somebody waits for it now
	}
	return nil
}

// queueLocked asks for a caller with demand d to wait along with l, if that is
// queued for admission. The table's lock must be held.
func queueLocked[K comparable, V any](l *inflight.Load[K, V], d admit.Demand) error {
	if l.Queue == nil {
		return nil
	}
	return l.Queue.Join(d.Until, int8(d.Priority))
}

// demandLocked returns what those who wait for l now bring to the limiter. If
// there are none but the Guard, or l goes on without anybody, that is no deadline
// and the lowest class; that of a refresh in the background is Background. The
// table's lock must be held, and l not be final.
func (g *Guard[K, V]) demandLocked(l *inflight.Load[K, outcome[V]]) admit.Demand {
	own := admit.Demand{Priority: limit.Low}
	if l.Background() {
		own.Priority = limit.Background
	}
	all, some := own, false
	for _, f := range l.Flights() {
		if d, ok := f.Value.crowd.Demand(); ok && some {
			all = all.With(d)
		} else if ok {
			all, some = d, true
		}
	}
	if some && l.PinnedLocked() {
		all.Until = time.Time{} // the Guard has none
	}
	return all
}

// A queued is the place of a load in a limiter's queue.
type queued struct{ at *limit.Place }

var _ inflight.Queue = queued{}

// Join implements inflight.Queue. It takes the limiter's lock under the table's.
func (q queued) Join(until time.Time, urgency int8) error {
	return q.at.Join(until, limit.Priority(urgency))
}

// Leave implements inflight.Queue, likewise.
func (q queued) Leave(rest int8) { q.at.Leave(limit.Priority(rest)) }

// turnedAway counts and reports a call that joinLocked has refused.
func (c *call[K, V]) turnedAway(refusal error) {
	c.counts(&c.g.count.turnedAway)
	c.g.count.refusals.Add(1)
	c.g.event(c.ctx, EventRefused, c.key, refusal)
}

// admit waits for a permit. It reports false, with err set, if there is none.
// The limiter is asked again when callers have joined in the meantime for whom
// its refusal does not hold: those with a later deadline or a higher priority.
func (r *run[K, V]) admit() bool {
	g := r.g
	if g.o.Limiter == nil {
		return true
	}
	began := r.clock()
	for {
		at := new(limit.Place)
		asked := r.asks(at)
		permit, err := g.acquire(asked.Context(r.l, at))
		if err == nil {
			r.permit = permit
			at.Hold(permit)
			r.queued = r.clock().Sub(began)
			return true
		}
		if r.refused(asked, err) {
			return false
		}
	}
}

// asks returns the demand of those who wait now, and says where others can join
// them.
func (r *run[K, V]) asks(at *limit.Place) admit.Demand {
	r.g.flights.Lock()
	defer r.g.flights.Unlock()
	if r.l.FinalLocked() {
		return admit.Demand{} // nobody waits, and Acquire finds that the load has ended
	}
	r.l.Queue = queued{at}
	return r.g.demandLocked(r.l)
}

// refused takes a refusal of what was asked. It reports false if the flight
// asks for more by now and must ask again. Otherwise the load ends in the same
// step, so that nobody can join it and be refused on another's account.
func (r *run[K, V]) refused(asked admit.Demand, refusal error) bool {
	g, l := r.g, r.l
	judged := admit.Refusal(refusal)
	g.flights.Lock()
	if judged != nil && !l.FinalLocked() && g.demandLocked(l).Revises(asked, judged) {
		g.flights.Unlock()
		return false
	}
	alone := r.background && l.JoinersLocked() == 0
	counts := l.FailLocked(refusal)
	if counts { // or another load may have the key by now
		g.retryLaterLocked(l)
	}
	g.flights.Unlock()
	r.err, r.class = refusal, ClassOverload
	if !counts {
		return true // given up while it waited: nobody has refused it
	}
	l.End(nil)
	if alone {
		g.count.refreshesSkipped.Add(1)
		g.event(l, EventRefreshSkipped, l.Flights()[0].Key, refusal)
	} else {
		g.count.refusals.Add(1)
		g.event(l, EventRefused, l.Flights()[0].Key, refusal)
	}
	return true
}
