package fleet

import (
	"time"

	"github.com/weir-go/weir/limit"
)

// paceCallers is how many callers come, at least, between two questions while
// the engine has fewer permits than wanted, unless that takes half a lease. What
// comes back meanwhile is not lost: it is less than the engine's burst.
const paceCallers = 16

// askLocked asks the engine for as many permits as there are callers that wait,
// or as came in half a lease, whichever is more. So a batch is used up before
// its lease ends, it at most doubles from one to the next, and a single caller
// takes a single permit. l.mu must be held, and no question be in progress.
func (l *line) askLocked(now time.Duration) {
	l.disarmLocked()
	if !l.d.begin() {
		l.settleAllLocked(ErrLimiterClosed)
		return
	}
	terms := l.termsLocked()
	n := max(1, l.q.n, l.demand.last(now, terms.horizon))
	n = min(n, terms.MaxBatch)
	// What is left of the lease before has run out, and a permit of it that
	// comes back is too late.
	l.stock, l.until = 0, 0
	l.asking = true
	go l.ask(terms, n, now)
}

// ask is one question. It ends by the lease's deadline, and Close waits for it.
func (l *line) ask(terms *lineTerms, n int, asked time.Duration) {
	defer l.d.work.Done()
	t, err := l.d.ask(terms, l.key, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answeredLocked(terms, n, asked, t, err)
}

// answeredLocked takes in the answer to a question for n permits under terms.
// The lease began when it was requested: that was before the engine counted, so
// all that is used within the lease is used within a lease of the count. l.mu
// must be held.
func (l *line) answeredLocked(terms *lineTerms, n int, asked time.Duration, t Taken, err error) {
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
	if t.Permits < n && latest == terms { // else it said so about another rate
		l.barred = now + max(t.RetryAfter, l.paceLocked(now))
	}
	l.serveLocked(now)
}

// paceLocked returns in what time paceCallers come, from a 32nd of a lease to
// half of one, and up to half as much more or less: instances that asked in
// turn, all as often, would find the same one with nothing left each time. l.mu
// must be held.
func (l *line) paceLocked(now time.Duration) time.Duration {
	h := l.terms.horizon
	pace := max(h/16, min(h, h*paceCallers/time.Duration(max(1, l.demand.last(now, h)))))
	return max(1, time.Duration((0.5+l.d.random())*float64(pace)))
}

// serveLocked hands what is in stock to the callers that wait. For the rest it asks
// again, or, where that is of no use yet, refuses those that do not wait so long.
// l.mu must be held, and no question be in progress.
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
// may be called again and the callers ahead of them have their permits, and those
// beyond the queue's places. l.mu must be held.
func (l *line) refuseLateLocked(now time.Duration) {
	kept := 0
	for w := l.q.head; w != nil; {
		next := w.next
		wait := l.barred - now + l.terms.Rate.time(kept)
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

// failLocked deals with the callers that wait as OnFailure says. l.mu must be held, and
// no question be in progress.
func (l *line) failLocked(now time.Duration) {
	d, terms := l.d, l.termsLocked()
	outage, _ := d.health.outage()
	var short time.Duration // until the next permit of our own share, if one was missed
	for w := l.q.head; w != nil; {
		next := w.next
		ok := terms.OnFailure == FailOpen
		if terms.OnFailure == FailLocalShare {
			short, ok = l.share.take(outage, now, terms.each, terms.share)
		}
		switch {
		case ok:
			l.letInLocked(0)
			d.count.outageAdmitted.Add(1)
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

// letInLocked lets in the first who waits, with a permit of the lease that ends
// at until. l.mu must be held.
func (l *line) letInLocked(until time.Duration) {
	w := l.q.head
	w.until = until
	l.d.count.admitted.Add(1)
	l.d.count.waited.Add(1)
	l.q.resolve(w, nil)
}

// settleAllLocked ends the wait of all. l.mu must be held.
func (l *line) settleAllLocked(err error) {
	l.disarmLocked()
	for l.q.n > 0 {
		l.q.resolve(l.q.head, err)
	}
}

// armLocked has tick look at the callers that wait after wait, unless that is arranged
// already, and soon enough to see the end of an outage. l.mu must be held.
func (l *line) armLocked(wait time.Duration) {
	if l.q.n == 0 || l.asking || l.timer != nil {
		return
	}
	if l.d.health.failing.Load() {
		wait = min(wait, l.termsLocked().Retry)
	}
	l.timer = time.AfterFunc(max(1, wait), l.tick)
}

// disarmLocked stops the timer. A tick that is under way does no harm. l.mu must
// be held.
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
