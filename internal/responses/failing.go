package responses

import "time"

// A Failing is what is remembered of calls that were to replace a response, and
// failed. It is not altered.
type Failing struct {
	Until time.Time     // when the next call may be made
	Wait  time.Duration // how long that was from the last failure
	Err   error         // the last failure
	// trying: a call is under way, and Until is when it counts as lost.
	trying bool
}

// Fails remembers that a call for r has failed at now. The wait doubles from first
// up to most with each failure: those of calls that were made at the same time are
// one. After a soft purge, whose caller waits for what is new, the first failure
// is followed by a try at once.
func (r *Stored) Fails(err error, now time.Time, first, most time.Duration) {
	for {
		old := r.Failing.Load()
		next := &Failing{Wait: min(first, most), Err: err}
		switch {
		case old == nil && r.Marked.Load():
			next.Wait = 0
		case old != nil:
			if !old.trying && now.Before(old.Until) {
				return
			}
			next.Wait = min(max(2*old.Wait, first), most)
		}
		next.Until = now.Add(next.Wait)
		if r.Failing.CompareAndSwap(old, next) {
			return
		}
	}
}

// Recovers forgets failures: a call has succeeded.
func (r *Stored) Recovers() {
	if r.Failing.Load() != nil {
		r.Failing.Store(nil)
	}
}

// Try reports whether a call for r may be made at now. If not, why is the failure
// that is remembered. When its wait is over, one caller gets a turn, and the others
// wait until that call has failed or succeeded, or the turn was given back; but no
// longer than once more that wait, so that nobody has to be relied upon.
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

// GiveBack ends a turn whose call has said nothing about the origin.
func (r *Stored) GiveBack(turn *Failing, now time.Time) {
	r.Failing.CompareAndSwap(turn, &Failing{Until: now, Wait: turn.Wait, Err: turn.Err})
}
