package weir

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// joinLocked adds the call to f. If f is queued for admission and could not be
// admitted within the caller's deadline, it returns a refusal for this caller
// only: another caller with more time may keep waiting for f. The table's lock
// must be held.
func (c *call[K, V]) joinLocked(f *inflight.Flight[K, outcome[V]]) error {
	g := c.g
	if err := queueLocked(f.Load(), c.demand); err != nil {
		return err
	}
	f.JoinLocked()
	c.attachLocked(f)
	if g.batches != nil {
		g.batches.GrantLocked() // if it was a refresh, a caller waits for it now
	}
	return nil
}

// queueLocked adds a caller with demand d to the waiters of l in the limiter's
// queue, if l is queued. The table's lock must be held.
func queueLocked[K comparable, V any](l *inflight.Load[K, V], d admit.Demand) error {
	if l.Queue == nil {
		return nil
	}
	return l.Queue.Join(d.Until, int8(d.Priority))
}

// demandLocked returns the combined demand of the callers that wait for l. If no
// caller waits for it, the demand has no deadline and the lowest priority; for a
// background refresh the priority is Background. The table's lock must be held, and
// l must not be final.
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

// queued is a load's place in a limiter's queue.
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

// admit waits for a permit. It returns false, with err set, if the load gets
// none.
func (r *run[K, V]) admit() bool {
	if r.g.o.Limiter == nil {
		return true
	}
	began := r.clock()
	permit, err := admit.Acquire(r.l, (*admission[K, V])(r))
	if err != nil {
		r.reportRefusal()
		return false
	}
	r.permit = permit
	r.admitted.Store(true)
	r.queued = r.clock().Sub(began)
	return true
}

// reportRefusal counts the refusal, wakes the callers and reports it, after the load
// has ended without a permit. It counts first: a caller that reads Stats finds its own
// refusal there.
func (r *run[K, V]) reportRefusal() {
	g, l := r.g, r.l
	switch {
	case !r.refused: // given up while it waited, not refused
		return
	case r.unwanted:
		g.count.refreshesSkipped.Add(1)
		l.End(nil)
		g.event(l, EventRefreshSkipped, l.Flights()[0].Key, r.err)
	default:
		g.count.refusals.Add(1)
		g.count.costRefused.Add(uint64(r.cost()))
		l.End(nil)
		g.event(l, EventRefused, l.Flights()[0].Key, r.err)
	}
}

// An admission is a run as admit.Acquire sees it.
type admission[K comparable, V any] run[K, V]

func (a *admission[K, V]) Lock()   { a.g.flights.Lock() }
func (a *admission[K, V]) Unlock() { a.g.flights.Unlock() }

func (a *admission[K, V]) QueueLocked(at *limit.Place) {
	if !a.l.FinalLocked() {
		a.l.Queue = queued{at}
	}
}

// DemandLocked returns false once the load is final: the limiter then finds that the
// load has ended.
func (a *admission[K, V]) DemandLocked() (admit.Demand, bool) {
	if a.l.FinalLocked() {
		return admit.Demand{}, false
	}
	return a.g.demandLocked(a.l), true
}

func (a *admission[K, V]) Ask(ctx context.Context) (limit.Permit, error) {
	r := (*run[K, V])(a)
	r.estimate()
	return a.g.acquire(ctx, r.cost())
}

func (a *admission[K, V]) RefusedLocked(err error) {
	a.err, a.class = err, ClassOverload
	if tooMany(err) {
		a.class = ClassPermanent
	}
	a.unwanted = a.l.Background() && a.l.JoinersLocked() == 0
	if a.refused = a.l.FailLocked(err); a.refused { // otherwise another load may have the key by now
		a.g.retryLaterLocked(a.l)
	}
}
