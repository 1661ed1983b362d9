package weirhttp

import (
	"sync/atomic"
	"time"
)

// work is how long the calls of a Handler take, until the head of the response: the
// longest of late. One that takes longer counts at once, and is forgotten in the course of
// some hundred calls. So the estimate for a mixture of calls is near its long ones: what is
// estimated too short puts more calls on the origin than the limit says (H14).
type work struct{ longest atomic.Int64 }

// forgets is the share, 1 in so many, of the distance to the longest call that each
// shorter one takes away.
const forgets = 256

// took records a call.
func (w *work) took(d time.Duration) {
	for {
		old := w.longest.Load()
		now := int64(d)
		if now < old {
			now = old - (old-now)/forgets
		}
		if now == old || w.longest.CompareAndSwap(old, now) {
			return
		}
	}
}

// mostWork bounds the time for which the permit of a call is held after its last client
// has left, if there is no time-out.
const mostWork = 10 * time.Minute

// rest returns for how long the origin may go on with a call that was given up after
// taken: as long as calls take, at most up to timeout, if there is one. If nothing is
// known, or the origin's end is seen, that bound alone counts.
func (w *work) rest(taken, timeout time.Duration, seen bool) time.Duration {
	bound := timeout
	if timeout <= 0 {
		bound = taken + mostWork
	}
	if longest := time.Duration(w.longest.Load()); !seen && longest > 0 {
		bound = min(bound, longest+longest/4) // a busy origin begins later
	}
	return bound - taken
}
