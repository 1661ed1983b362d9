package quota

import (
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
)

// paceCallers is the minimum number of callers that arrive between two requests while
// the engine has fewer permits than wanted, unless that takes more than half a lease.
// Permits that come back in between are not lost: they are fewer than the engine's
// burst.
const paceCallers = 16

// askLocked requests permits from the engine: as many as there are waiting callers,
// or as many as came in half a lease, whichever is more. So a batch is used up before
// its lease ends, batches at most double from one to the next, and a single caller
// takes a single permit. l.mu must be held, and no request may be in progress.
func (l *line) askLocked(now time.Duration) {
	l.disarmLocked()
	if !l.d.begin() {
		l.settleAllLocked(ErrLimiterClosed)
		return
	}
	terms := l.termsLocked()
	n := max(1, l.q.n, l.demand.last(now, terms.horizon))
	n = min(n, terms.MaxBatch)
	// The previous lease has expired; a permit returned to it now is dropped.
	l.stock, l.until = 0, 0
	l.asking = true
	go l.ask(terms, n, now)
}

// ask makes one request. It ends by the lease's deadline, and Close waits for it.
func (l *line) ask(terms *lineTerms, n int, asked time.Duration) {
	defer l.d.work.Done()
	t, err := l.d.ask(terms, l.key, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answeredLocked(terms, n, asked, t, err)
}

// answeredLocked handles the response to a request for n permits under terms. The
// lease counts from the request, which was before the engine counted: so permits used
// within the lease are used within one Lease of the count. l.mu must be held.
func (l *line) answeredLocked(terms *lineTerms, n int, asked time.Duration, t fleet.Taken, err error) {
	d := l.d
	now := d.now()
	l.asking = false
	if d.closed.Load() {
		l.settleAllLocked(ErrLimiterClosed)
		return
	}
	latest := l.termsLocked()
	if err == nil && now >= asked+terms.Lease {
		err = errLate
	}
	if err != nil {
		d.count.failed.Add(1)
		d.health.failed(now, latest.Retry, err)
		l.failLocked(now)
		return
	}
	d.health.answered()
	l.stock, l.until = t.Permits, asked+terms.Lease
	if t.Permits < n && latest == terms { // otherwise its RetryAfter is for another rate
		l.barred = now + max(t.RetryAfter, l.paceLocked(now))
	}
	l.serveLocked(now)
}

// paceLocked returns the time in which paceCallers arrive, from a 32nd of a lease to
// half of one, varied at random by up to half. Without the variation, instances that
// call in turn at equal intervals would always leave the same one without permits.
// l.mu must be held.
func (l *line) paceLocked(now time.Duration) time.Duration {
	h := l.terms.horizon
	pace := max(h/16, min(h, h*paceCallers/time.Duration(max(1, l.demand.last(now, h)))))
	return max(1, time.Duration((0.5+l.d.random())*float64(pace)))
}

// serveLocked gives the permits in stock to the waiting callers. For the rest it
// makes another request. If it is too early for one, it refuses the callers that
// cannot wait that long. l.mu must be held, and no request may be in progress.
func (l *line) serveLocked(now time.Duration) {
	for l.q.n > 0 && l.stock > 0 {
		l.stock--
		l.letInLocked(l.until)
	}
	if l.q.n == 0 {
		l.disarmLocked()
		return
	}
	if now >= l.barred {
		l.askLocked(now)
		return
	}
	l.refuseLateLocked(now)
	l.armLocked(l.barred - now)
}

// refuseLateLocked rejects the callers that cannot or may not wait until the engine
// may be called again and the callers ahead of them have their permits. It also
// rejects those beyond the places of the queue. l.mu must be held.
func (l *line) refuseLateLocked(now time.Duration) {
	kept := 0
	for w := l.q.head; w != nil; {
		next := w.next
		wait := l.barred - now + timeOf(l.terms.Rate, kept)
		reason := w.late(now + wait)
		if reason == 0 && kept >= w.places {
			reason = limit.RateExceeded
		}
		if reason != 0 {
			l.q.resolve(w, l.d.refusal(reason, wait))
		} else {
			kept++
		}
		w = next
	}
}

// failLocked handles the waiting callers according to OnFailure. l.mu must be held,
// and no request may be in progress.
func (l *line) failLocked(now time.Duration) {
	d, terms := l.d, l.termsLocked()
	outage, _ := d.health.outage()
	var short time.Duration // until the next permit of the local share, if a caller got none
	for w := l.q.head; w != nil; {
		next := w.next
		ok := terms.OnFailure == FailOpen
		if terms.OnFailure == FailLocalShare {
			short, ok = l.share.take(outage, now, terms.each, terms.share)
		}
		switch {
		case ok:
			d.count.outageAdmitted.Add(1) // before the caller goes on, and may read Stats
			l.letInLocked(0)
		case terms.OnFailure == FailClosed:
			l.q.resolve(w, d.outageRefusal(now))
		case !w.patient:
			d.count.outageRefused.Add(1)
			l.q.resolve(w, d.refusal(w.reason, short))
		}
		w = next
	}
	l.disarmLocked()
	l.armLocked(short)
}

// letInLocked admits the first waiting caller, with a permit of the lease that ends
// at until. l.mu must be held.
func (l *line) letInLocked(until time.Duration) {
	w := l.q.head
	w.until = until
	l.d.count.admitted.Add(1)
	l.d.count.waited.Add(1)
	l.q.resolve(w, nil)
}

// settleAllLocked ends the wait of all callers with err. l.mu must be held.
func (l *line) settleAllLocked(err error) {
	l.disarmLocked()
	for l.q.n > 0 {
		l.q.resolve(l.q.head, err)
	}
}

// armLocked schedules tick after wait, unless it is scheduled already, and in time to
// notice the end of an outage. l.mu must be held.
func (l *line) armLocked(wait time.Duration) {
	if l.q.n == 0 || l.asking || l.timer != nil {
		return
	}
	if l.d.health.failing.Load() {
		wait = min(wait, l.termsLocked().Retry)
	}
	l.timer = time.AfterFunc(max(1, wait), l.tick)
}

// disarmLocked stops the timer. A tick that is already running does no harm. l.mu
// must be held.
func (l *line) disarmLocked() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// tick runs on the timer's goroutine.
func (l *line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.q.n == 0 || l.asking {
		return
	}
	now := l.d.now()
	l.disarmLocked()
	switch down := l.d.health.down(); {
	case down && !l.d.health.try(now, l.termsLocked().Retry):
		l.failLocked(now)
	case !down && now < l.barred:
		l.armLocked(l.barred - now)
	default:
		l.askLocked(now)
	}
}
