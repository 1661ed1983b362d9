package limit

import "time"

// A Reservation is a token booked for later, made by [RateLimiter.Reserve]. It
// is safe for concurrent use.
type Reservation struct {
	l  *RateLimiter
	at time.Time // the latest time at which its turn comes
	w  waiter    // guarded by l.mu
}

// Reserve books a token and returns at once. The caller waits for
// [Reservation.Delay] before it starts its call, or calls Cancel. The reservation
// takes a place in the same queue as the callers of Acquire, with class Normal.
//
// Reserve rejects with RateExceeded if the delay would be longer than MaxWait, or
// if there is a delay and the queue is full.
func (l *RateLimiter) Reserve() (*Reservation, error) {
	l.mu.Lock()
	now := time.Now()
	r := &Reservation{l: l, at: now}
	r.w.units = 1
	if token, ok := l.takeLocked(now, 1, 0, nil); ok {
		r.w.granted, r.w.id = true, token
		l.mu.Unlock()
		return r, nil
	}
	wait := l.waitLocked(now, 1)
	if l.q.n >= l.places || wait > l.maxWait {
		l.refused[RateExceeded]++
		l.mu.Unlock()
		return nil, l.refusal(RateExceeded, wait)
	}
	r.at = now.Add(wait)
	l.joinLocked(&r.w, now)
	l.mu.Unlock()
	return r, nil
}

// Delay returns how long to wait from now until the call may start, or 0 if it may
// start now. The start never moves later, even if the rate is lowered. When callers
// ahead of the reservation leave, the delay can drop to 0 early. After Cancel the
// result is meaningless.
func (r *Reservation) Delay() time.Duration {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.w.granted {
		return 0
	}
	return max(0, time.Until(r.at))
}

// Cancel returns the token, for a call that will not start, within the same bounds
// as Release with Unused. A second Cancel does nothing.
func (r *Reservation) Cancel() {
	var g grants
	r.l.mu.Lock()
	if r.w.granted {
		r.l.putBackLocked(r.w.id, &g)
	} else if r.l.dropLocked(&r.w, &g) {
		r.l.left++
	}
	r.l.mu.Unlock()
	g.wake()
}
