package weir

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// A demand is what a flight may ask of the limiter for those who wait for it:
// the latest of their deadlines and the highest of their priorities (F3).
type demand struct {
	until    time.Time // zero: no deadline
	priority limit.Priority
}

// demand returns what one caller brings. It asks ctx, which may be the user's
// code, so the table must not be locked. Without a limiter nobody needs to
// know.
func (g *Guard[K, V]) demand(ctx context.Context) demand {
	if g.o.Limiter == nil {
		return demand{}
	}
	until, _ := ctx.Deadline()
	return demand{until: until, priority: limit.PriorityOf(ctx)}
}

// outlasts reports whether d has a later deadline than o, or none.
func (d demand) outlasts(o demand) bool {
	return !o.until.IsZero() && (d.until.IsZero() || d.until.After(o.until))
}

// revises reports whether refusal, of what was asked, may not hold for d: it
// was for a deadline and d has a later one, or d has a higher priority.
func (d demand) revises(asked demand, refusal error) bool {
	var e *limit.Error
	if !errors.As(refusal, &e) {
		return false
	}
	return d.priority > asked.priority || e.Reason == limit.WaitTooLong && d.outlasts(asked)
}

// joinLocked puts a caller with demand d on f. If f is queued for admission and
// could not be admitted within the caller's deadline, the caller is refused
// instead: another with more time may go on waiting for f. The table's lock
// must be held.
func (g *Guard[K, V]) joinLocked(f *inflight.Flight[K, outcome[V]], d demand) error {
	if err := queueLocked(f.Load, d); err != nil {
		return err
	}
	f.JoinLocked()
	raiseLocked(f.Load, d)
	if g.places != nil {
		g.places.GrantLocked() // if it was a refresh, somebody waits for it now
	}
	return nil
}

// queueLocked asks for a caller with demand d to wait along with l, if that is
// queued for admission. The table's lock must be held.
func queueLocked[K comparable, V any](l *inflight.Load[K, V], d demand) error {
	if l.Queue == nil {
		return nil
	}
	return l.Queue.Join(d.until, int8(d.priority))
}

// raiseLocked notes that l has a joiner with demand d. The table's lock must be
// held.
func raiseLocked[K comparable, V any](l *inflight.Load[K, V], d demand) {
	if d.outlasts(demand{until: l.Until}) {
		l.Until = d.until
	}
	l.Urgency = max(l.Urgency, int8(d.priority))
}

// turnedAway counts and reports a call that joinLocked has refused.
func (g *Guard[K, V]) turnedAway(key K, refusal error) {
	g.count.refusals.Add(1)
	g.event(EventRefused, key, refusal)
}

// A place is where a load stands in the limiter's queue.
type place struct{ limit.Place }

// Join is [limit.Place.Join]. The limiter's lock is taken under the table's.
func (p *place) Join(until time.Time, urgency int8) error {
	return p.Place.Join(until, limit.Priority(urgency))
}

// An admission is the context in which a load asks for its permit: it has the
// deadline of the callers, for the limiter to judge by, but ends with the load
// only, since callers with a later one may join.
type admission struct {
	context.Context
	until time.Time
}

func (a admission) Deadline() (time.Time, bool) { return a.until, !a.until.IsZero() }

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
		at := &place{}
		asked := r.asks(at)
		permit, err := g.o.Limiter.Acquire(limit.ContextWithPlace(asked.context(r.l), &at.Place))
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

// asks returns the demand of those who wait now, and says where it is asked.
func (r *run[K, V]) asks(at *place) demand {
	r.g.flights.Lock()
	defer r.g.flights.Unlock()
	r.l.Queue = at
	return demand{until: r.l.Until, priority: limit.Priority(r.l.Urgency)}
}

// context returns the context that carries d.
func (d demand) context(load context.Context) context.Context {
	if d.priority != limit.PriorityOf(load) {
		load = limit.ContextWithPriority(load, d.priority)
	}
	if d.until.IsZero() {
		return load
	}
	return admission{load, d.until}
}

// refused takes a refusal of what was asked. It reports false if the flight
// asks for more by now and must ask again. Otherwise the load ends in the same
// step, so that nobody can join it and be refused on another's account.
func (r *run[K, V]) refused(asked demand, refusal error) bool {
	g, l := r.g, r.l
	g.flights.Lock()
	now := demand{until: l.Until, priority: limit.Priority(l.Urgency)}
	if now.revises(asked, refusal) && !l.FinalLocked() {
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
