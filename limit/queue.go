package limit

import (
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A waiter is one caller in a queue. All but ready is guarded by the mutex of
// the limiter that owns the queue.
type waiter struct {
	ready chan struct{} // closed after the grant; nil for a Reservation, which has no waiting goroutine

	// Written by the limiter before ready is closed, in the same critical
	// section in which the waiter leaves the queue.
	granted bool
	id      uint64        // of the permit, with granted
	refused Reason        // Displaced by another caller, or TooMany after an Update
	retry   time.Duration // with refused
	most    int           // with TooMany: the most units that a caller may request
	over    bool          // with refused: see Error.OverShare

	units      int           // requested, 1 or more
	counted    bool          // of a pool, by AcquireN: the permit can be settled
	counter    *counter      // of a RateLimiter, by AcquireN
	joined     time.Duration // of a pool, as the two below: when it joined the queue
	deadline   time.Duration // of its context; forever without one
	until      time.Duration // when MaxWait ends
	tenant     *tenant       // in lines, as bill
	bill       bill
	class      int                // in classes
	since      [classCount]uint64 // in classes: its turn in each class up to class
	loan       bool               // granted by another caller, not by the limiter
	queued     bool               // whether it is in a queue
	prev, next *waiter
}

// refusal returns the error for w, which was rejected by the limiter of that name.
func (w *waiter) refusal(limiter string) *Error {
	e := &Error{Limiter: limiter, Reason: w.refused, RetryAfter: max(1, w.retry), OverShare: w.over}
	if w.refused == TooMany {
		e.Units, e.Most = w.units, w.most
	}
	return e
}

// A queue holds waiting callers in order of arrival. remove takes constant time at
// any position.
//
// The zero queue is empty and ready to use. It has no lock.
type queue struct {
	head, tail *waiter
	n          int // waiters
	units      int // requested by all waiters
}

func (q *queue) push(w *waiter) {
	w.queued = true
	w.prev, w.next = q.tail, nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n++
	q.units += w.units
}

// insert puts w after the last waiter for which before is true. It walks from the
// end.
func (q *queue) insert(w *waiter, before func(v *waiter) bool) {
	at := q.tail
	for at != nil && !before(at) {
		at = at.prev
	}
	if at == q.tail {
		q.push(w)
		return
	}
	w.queued = true
	w.prev = at
	if at == nil {
		w.next, q.head = q.head, w
	} else {
		w.next, at.next = at.next, w
	}
	w.next.prev = w
	q.n++
	q.units += w.units
}

// pop removes and returns the first waiter, or returns nil if the queue is empty.
func (q *queue) pop() *waiter {
	w := q.head
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove removes w from any position, and reports whether it was in the queue.
func (q *queue) remove(w *waiter) bool {
	if !w.queued {
		return false
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.n--
	q.units -= w.units
	return true
}

// before returns how many units the waiters before w request. w must be in the
// queue. before walks the queue.
func (q *queue) before(w *waiter) int {
	n := 0
	for v := w.prev; v != nil; v = v.prev {
		n += v.units
	}
	return n
}

// A grants is a chain of waiters, in the order in which they were admitted or
// displaced. They are woken once the lock is released. It uses the links of the
// waiters, which are no longer in a queue.
type grants struct {
	first, last *waiter
	lender      *lend.Call  // call whose lent permit has been returned to it, or nil
	onStorm     func(Storm) // is called with storm; nil: it has not begun or ended
	storm       Storm
}

// add admits w with the permit id. The limiter's mutex must be held.
func (g *grants) add(w *waiter, id uint64) {
	w.granted, w.id = true, id
	g.link(w)
}

// link puts w into the chain. The limiter's mutex must be held.
func (g *grants) link(w *waiter) {
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
}

// wake wakes the waiters. No lock may be held.
func (g grants) wake() {
	for w := g.first; w != nil; {
		next := w.next
		w.next = nil // a retained Reservation must not retain the others
		if w.ready != nil {
			close(w.ready)
		}
		w = next
	}
	if g.lender != nil {
		g.lender.Returned()
	}
	if g.onStorm != nil {
		g.onStorm(g.storm)
	}
}
