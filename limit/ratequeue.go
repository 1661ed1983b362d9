package limit

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

// catchUp bounds how far the queue of a RateLimiter makes up for a timer that fired
// late. Some catching up is needed, because at a high rate timers are coarser than
// the gap between tokens. Without a bound, a process that was stopped for a minute
// would admit a minute's worth of callers at once.
const catchUp = 100 * time.Millisecond

// takeLocked takes n tokens if no caller waits and the bucket has at least n+spare.
// c is the counter of AcquireN, or nil. l.mu must be held.
func (l *RateLimiter) takeLocked(now time.Time, n, spare int, c *counter) (token uint64, ok bool) {
	if l.q.n > 0 {
		return 0, false
	}
	token, ok = l.bucket.take(now, n, spare)
	if ok {
		l.admitted++
		if c != nil {
			c.tookLocked(now)
		}
	}
	return token, ok
}

// waitLocked returns how long after now need tokens are available to a newcomer at
// the end of the queue. l.mu must be held.
func (l *RateLimiter) waitLocked(now time.Time, need int) time.Duration {
	return l.bucket.until(now, l.q.units+need)
}

// joinLocked puts w at the end of the queue, and starts the timer if w is the first.
// l.mu must be held.
func (l *RateLimiter) joinLocked(w *waiter, now time.Time) {
	l.q.push(w)
	if l.q.n == 1 {
		wait := l.bucket.until(now, w.units)
		l.due = now.Add(wait)
		l.timer = time.AfterFunc(wait, l.tick)
	}
}

// waitFor implements queuer.
func (l *RateLimiter) waitFor(w *waiter) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.queued {
		return 0, false
	}
	now := time.Now()
	return l.bucket.until(now, l.q.before(w)+w.units), true
}

// joinAt implements queuer. A RateLimiter has one class of waiting callers.
func (l *RateLimiter) joinAt(w *waiter, left time.Duration, _ int) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.queued {
		return nil
	}
	wait := l.bucket.until(time.Now(), l.q.before(w)+w.units)
	if wait < left {
		return nil
	}
	l.refused[WaitTooLong]++
	return l.refusal(WaitTooLong, wait)
}

// leaveAt implements queuer.
func (l *RateLimiter) leaveAt(*waiter, int) {}

// tick runs on the timer's goroutine when a token is due. A late tick is harmless
// when the queue is already empty.
func (l *RateLimiter) tick() {
	var g grants
	l.mu.Lock()
	l.grantLocked(time.Now(), &g)
	l.mu.Unlock()
	g.wake()
}

// grantLocked hands out the tokens that are due and sets the timer for the next one.
// Each token is booked at the instant when it was due, not when the timer fired, so
// that late timers do not lower the rate. l.mu must be held.
func (l *RateLimiter) grantLocked(now time.Time, g *grants) {
	if l.q.n > 0 && now.Sub(l.due) > catchUp {
		l.due = now.Add(-catchUp)
	}
	for l.q.n > 0 && !l.due.After(now) {
		l.admitted++
		l.waited++
		w := l.q.pop()
		g.add(w, l.bucket.book(l.due, w.units))
		if w.counter != nil {
			w.counter.tookLocked(l.due)
		}
		if l.q.n > 0 {
			l.due = l.due.Add(l.bucket.until(l.due, l.q.head.units))
		}
	}
	if l.q.n > 0 {
		l.timer.Reset(l.due.Sub(now))
		return
	}
	l.stopLocked()
}

// stopLocked stops the timer of an empty queue. l.mu must be held.
func (l *RateLimiter) stopLocked() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// await is AcquireN in the queue.
func (l *RateLimiter) await(ctx context.Context, w *waiter) (Permit, error) {
	select {
	case <-w.ready:
		switch {
		case ctx.Err() != nil:
		case w.granted:
			return l.permit(w.id, w.counter), nil
		default:
			return Permit{}, w.refusal(l.name)
		}
	case <-ctx.Done():
	}
	l.leave(w)
	return Permit{}, wait.Cause(ctx)
}

// leave removes w, whose context is done, from the queue. If w was admitted at the
// same time, its tokens are returned.
func (l *RateLimiter) leave(w *waiter) {
	var g grants
	l.mu.Lock()
	l.left++
	switch {
	case w.granted:
		l.admitted--
		l.waited--
		if w.counter != nil {
			w.counter.refundLocked(w.units, &g)
			l.counters.remove(w.counter)
		} else {
			l.putBackLocked(w.id, &g)
		}
	case w.refused != 0:
		l.refused[w.refused]--
	default:
		l.dropLocked(w, &g)
	}
	l.mu.Unlock()
	g.wake()
}

// dropLocked removes w from the queue and reports whether it was there. The waiters
// behind it move up. The timer is set again only if the new head needs a different
// number of tokens. l.mu must be held.
func (l *RateLimiter) dropLocked(w *waiter, g *grants) bool {
	head := l.q.head == w
	ok := l.q.remove(w)
	switch {
	case l.q.n == 0:
		l.stopLocked()
	case head && l.q.head.units != w.units:
		l.againLocked(time.Now(), g)
	}
	return ok
}

// againLocked recomputes when the tokens for the head of the queue, if there is one,
// are due. l.mu must be held.
func (l *RateLimiter) againLocked(now time.Time, g *grants) {
	if l.q.n > 0 {
		l.due = now.Add(l.bucket.until(now, l.q.head.units))
	}
	l.grantLocked(now, g)
}

// putBackLocked returns a token to the bucket or to the head of the queue. Overdue
// tokens are handed out first, because the bucket is about to be advanced to now and
// may be too small to hold them. l.mu must be held.
func (l *RateLimiter) putBackLocked(token uint64, g *grants) {
	now := time.Now()
	l.grantLocked(now, g)
	if l.bucket.putBack(now, token) {
		l.returned++
		l.againLocked(now, g)
	}
}
