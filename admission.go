package weir

import (
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// joinLocked puts a caller with demand d on f. If f is queued for admission and
// could not be admitted within the caller's deadline, the caller is refused
// instead: another with more time may go on waiting for f. The table's lock
// must be held.
func (g *Guard[K, V]) joinLocked(f *inflight.Flight[K, outcome[V]], d admit.Demand) error {
	if err := queueLocked(f.Load(), d); err != nil {
		return err
	}
	f.JoinLocked()
	raiseLocked(f.Load(), d)
	if g.places != nil {
		g.places.GrantLocked() // if it was a refresh, somebody waits for it now
	}
	return nil
}

// queueLocked asks for a caller with demand d to wait along with l, if that is
// queued for admission. The table's lock must be held.
func queueLocked[K comparable, V any](l *inflight.Load[K, V], d admit.Demand) error {
	if l.Queue == nil {
		return nil
	}
	return l.Queue(d.Until, int8(d.Priority))
}

// raiseLocked notes that l has a joiner with demand d. The table's lock must be
// held.
func raiseLocked[K comparable, V any](l *inflight.Load[K, V], d admit.Demand) {
	if d.Outlasts(admit.Demand{Until: l.Until}) {
		l.Until = d.Until
	}
	l.Urgency = max(l.Urgency, int8(d.Priority))
}

// turnedAway counts and reports a call that joinLocked has refused.
func (c *call[K, V]) turnedAway(refusal error) {
	c.counts(&c.g.count.turnedAway)
	c.g.count.refusals.Add(1)
	c.g.event(EventRefused, c.key, refusal)
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
		permit, err := g.o.Limiter.Acquire(asked.Context(r.l, at))
		if err == nil {
			r.permit = permit
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
	r.l.Queue = func(until time.Time, urgency int8) error { // takes the limiter's lock under the table's
		return at.Join(until, limit.Priority(urgency))
	}
	return admit.Demand{Until: r.l.Until, Priority: limit.Priority(r.l.Urgency)}
}

// refused takes a refusal of what was asked. It reports false if the flight
// asks for more by now and must ask again. Otherwise the load ends in the same
// step, so that nobody can join it and be refused on another's account.
func (r *run[K, V]) refused(asked admit.Demand, refusal error) bool {
	g, l := r.g, r.l
	g.flights.Lock()
	now := admit.Demand{Until: l.Until, Priority: limit.Priority(l.Urgency)}
	if now.Revises(asked, refusal) && !l.FinalLocked() {
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
		g.event(EventRefreshSkipped, l.Flights()[0].Key, refusal)
	} else {
		g.count.refusals.Add(1)
		g.event(EventRefused, l.Flights()[0].Key, refusal)
	}
	return true
}
