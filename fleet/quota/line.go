package quota

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A line holds what an instance knows about the permits of one key, and the callers
// that wait for them.
type line struct {
	d   *dispenser
	key fleet.Key

	mu     sync.Mutex
	terms  *lineTerms    // guarded by mu; see termsLocked
	stock  int           // guarded by mu, as all below; leased permits
	until  time.Duration // when their lease ends
	barred time.Duration // do not call the engine before this instant
	asking bool          // a request is in progress
	demand demand
	share  share
	q      waiters
	timer  *time.Timer // wakes waiting callers; nil if there are none or asking is set
}

func newLine(d *dispenser, k fleet.Key) *line { return &line{d: d, key: k} }

// termsLocked returns the current terms. If they have changed, the engine may have
// permits earlier than it said. l.mu must be held.
func (l *line) termsLocked() *lineTerms {
	t := l.d.terms.Load()
	if l.terms != t {
		l.terms, l.barred = t, 0
	}
	return t
}

// updated requests permits for the waiting callers under the current terms.
func (l *line) updated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.termsLocked()
	if l.q.n > 0 && !l.asking {
		l.disarmLocked()
		l.armLocked(0)
	}
}

// take takes a permit. The common case is one lock, and no allocation.
func (l *line) take(ctx context.Context, patient bool) error {
	if ctx.Err() != nil {
		return wait.Cause(ctx)
	}
	if l.d.closed.Load() {
		return ErrLimiterClosed
	}
	l.mu.Lock()
	now := l.d.now()
	l.demand.note(now, l.termsLocked().horizon)
	if l.stock > 0 && now < l.until && l.q.n == 0 {
		l.stock--
		l.mu.Unlock()
		l.d.count.admitted.Add(1)
		return nil
	}
	l.mu.Unlock()
	return l.takeSlow(ctx, patient)
}

// takeSlow is take when no permit is in stock. It calls ctx outside the lock, because
// ctx can be the user's code.
func (l *line) takeSlow(ctx context.Context, patient bool) error {
	w := waiter{patient: patient, reason: limit.RateExceeded}
	left := forever
	if patient {
		if limit.PriorityOf(ctx) < limit.Low {
			w.patient, w.reason = false, limit.NoSpare
		} else if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
	}
	l.mu.Lock()
	now := l.d.now()
	terms := l.termsLocked()
	w.latest, w.longest, w.places = later(now, left), later(now, terms.maxWait), terms.places
	queued, err := l.joinLocked(now, w)
	l.mu.Unlock()
	if queued == nil {
		return err
	}
	return l.await(ctx, queued, terms.maxWait)
}

// later returns the instant d after now, forever if there is none.
func later(now, d time.Duration) time.Duration {
	if d > forever-now {
		return forever
	}
	return now + d
}

// joinLocked settles a caller at once, or puts a copy of w into the queue. It copies
// because most refusals then need no waiter on the heap. l.mu must be held.
func (l *line) joinLocked(now time.Duration, w waiter) (queued *waiter, err error) {
	switch {
	case l.d.closed.Load():
		return nil, ErrLimiterClosed
	case l.stock > 0 && now < l.until && l.q.n == 0:
		l.stock--
		l.d.count.admitted.Add(1)
		return nil, nil
	case l.d.health.down() && (l.asking || !l.d.health.try(now, l.terms.Retry)):
		wait, err, settled := l.outageLocked(now)
		if settled {
			return nil, err
		}
		return l.queueLocked(now, wait, w)
	case !l.d.health.down() && now < l.barred:
		return l.queueLocked(now, l.barred-now+timeOf(l.terms.Rate, l.q.patient), w)
	}
	// The response to the request in progress, or to a new one, serves this caller
	// too.
	queued = l.q.push(w)
	if !l.asking {
		l.askLocked(now)
	}
	return queued, nil
}

// queueLocked queues a caller for a permit that comes no earlier than after wait, or
// refuses the caller. l.mu must be held.
func (l *line) queueLocked(now, wait time.Duration, w waiter) (queued *waiter, err error) {
	reason := w.late(now + wait)
	if w.patient && l.q.patient >= w.places {
		reason = limit.RateExceeded
	}
	if reason == 0 {
		queued = l.q.push(w)
		l.armLocked(wait)
		return queued, nil
	}
	if l.d.health.down() {
		l.d.count.outageRefused.Add(1)
	}
	return nil, l.d.refusal(reason, wait)
}

// outageLocked handles one caller according to OnFailure. It reports settled as false
// if the caller can wait for a permit of the instance's local share. l.mu must be
// held.
func (l *line) outageLocked(now time.Duration) (wait time.Duration, err error, settled bool) {
	d, terms := l.d, l.terms
	switch terms.OnFailure {
	case FailClosed:
		return 0, d.outageRefusal(now), true
	case FailLocalShare:
		if l.q.patient > 0 {
			return l.share.next(now, terms.each) + time.Duration(l.q.patient)*terms.each, nil, false
		}
		n, _ := d.health.outage()
		if wait, ok := l.share.take(n, now, terms.each, terms.share); !ok {
			return wait, nil, false
		}
	}
	d.count.admitted.Add(1)
	d.count.outageAdmitted.Add(1)
	return 0, nil, true
}

// await waits in the queue for the result of take.
func (l *line) await(ctx context.Context, w *waiter, longest time.Duration) error {
	var late <-chan time.Time
	if w.patient && longest < forever {
		t := time.NewTimer(longest)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-w.done:
		if w.err != nil || ctx.Err() == nil {
			return w.err
		}
	case <-ctx.Done():
	case <-late:
		return l.expire(w)
	}
	l.leave(w)
	return wait.Cause(ctx)
}

// expire ends the wait of a caller that has waited MaxWait.
func (l *line) expire(w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.settled {
		return w.err
	}
	l.q.remove(w)
	return l.d.refusal(limit.QueueTimeout, l.barred-l.d.now())
}

// leave removes w, whose context is done, from the queue. If w was given a permit
// just before, the next caller gets it, provided that its lease is still the current
// one.
func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d.count.left.Add(1)
	if !w.settled {
		l.q.remove(w)
		return
	}
	l.d.count.admitted.Add(^uint64(0))
	l.d.count.waited.Add(^uint64(0))
	if w.until == 0 {
		l.d.count.outageAdmitted.Add(^uint64(0))
		return
	}
	if now := l.d.now(); w.until == l.until && now < l.until {
		l.stock++
		l.serveLocked(now)
	}
}

// shut rejects all waiting callers.
func (l *line) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stock = 0
	l.settleAllLocked(ErrLimiterClosed)
}
