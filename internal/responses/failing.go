package responses

import "time"

// A Failing records failed calls that were to replace a response. It is never
// modified.
type Failing struct {
	Until time.Time     // when the next call is allowed
	Wait  time.Duration // the time from the last failure to Until
	Err   error         // the last failure
	// trying: a call is in flight, and is considered lost after Until.
	trying bool
}

// Fails records that a call for r failed at now. The wait doubles with each
// failure, from first up to most. Failures of concurrent calls count as one.
// After a soft purge, callers wait for a new response, so the first failure
// allows another call at once. The wait is at least as long as the origin has stated, up to
// most; 0 is no statement.
func (r *Stored) Fails(err error, now time.Time, first, most, stated time.Duration) {
	for {
		old := r.Failing.Load()
		next := &Failing{Wait: min(first, most), Err: err}
		stated = min(stated, most)
		switch {
		case old == nil && r.Marked.Load():
			next.Wait = 0
		case old != nil && !old.trying && now.Before(old.Until):
			if !now.Add(stated).After(old.Until) {
				return
			}
			next.Wait = old.Wait
		case old != nil:
			next.Wait = min(max(2*old.Wait, first), most)
		}
		next.Wait = max(next.Wait, stated)
		next.Until = now.Add(next.Wait)
		if r.Failing.CompareAndSwap(old, next) {
			return
		}
	}
}

// Recovers clears the recorded failures after a call has succeeded.
func (r *Stored) Recovers() {
	if r.Failing.Load() != nil {
		r.Failing.Store(nil)
	}
}

// Try reports whether a call for r may be made at now. If not, why is the
// recorded failure. Once the wait is over, one caller gets a turn. The others are
// refused until its call fails or succeeds or the turn is given back, but for at
// most the same wait again, in case the call never reports.
func (r *Stored) Try(now time.Time) (turn *Failing, why error) {
	for {
		old := r.Failing.Load()
		switch {
		case old == nil:
			return nil, nil
		case now.Before(old.Until):
			return nil, old.Err
		}
		turn = &Failing{Until: now.Add(old.Wait), Wait: old.Wait, Err: old.Err, trying: true}
		if r.Failing.CompareAndSwap(old, turn) {
			return turn, nil
		}
	}
}

// GiveBack ends a turn whose call revealed nothing about the origin.
func (r *Stored) GiveBack(turn *Failing, now time.Time) {
	r.Failing.CompareAndSwap(turn, &Failing{Until: now, Wait: turn.Wait, Err: turn.Err})
}
