package limit

import (
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A waiter is one caller in a queue. All but ready is guarded by the mutex of
// the limiter that owns the queue.
type waiter struct {
	ready chan struct{} // closed after the grant; nil for a Reservation, which nobody waits on

	// Written by the limiter before ready is closed, in the same critical
	// section in which the waiter leaves the queue.
	granted bool
	id      uint64        // of the permit, with granted
	refused Reason        // Displaced, for the sake of another, or TooMany after an Update
	retry   time.Duration // with refused

	units      int                // that it wants, 1 or more
	class      int                // in a queue of several
	since      [classCount]uint64 // there: its turn in each class up to its own
	loan       bool               // granted by another caller, not by the limiter
	queued     bool               // whether it is in a queue
	prev, next *waiter
}

// A queue holds callers that wait, in the order in which they came. remove
// costs the same from anywhere.
//
// The zero queue is empty and ready to use. It has no lock of its own.
type queue struct {
	head, tail *waiter
	n          int // waiters
	units      int // that they want, together
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

// insert puts w behind all that are before it. It walks from the end.
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

// pop takes off the one that came first, nil if there is none.
func (q *queue) pop() *waiter {
	w := q.head
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove takes w off from wherever it stands, and reports whether it was there.
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

// before returns how many units those want that came before w, which is in the
// queue. It walks.
func (q *queue) before(w *waiter) int {
	n := 0
	for v := w.prev; v != nil; v = v.prev {
		n += v.units
	}
	return n
}

// A grants is a chain of waiters that were let in, first in first, or
// displaced, to be woken once the lock is released. It uses the links of the
// waiters, which are in no queue any more.
type grants struct {
	first, last *waiter
	lender      *lend.Call // has a permit back that it lent, or nil
}

// add lets w in with the permit id. The limiter's mutex must be held.
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

// wake tells them. No lock may be held.
func (g grants) wake() {
	for w := g.first; w != nil; {
		next := w.next
		w.next = nil // a Reservation that is kept must not keep the others
		if w.ready != nil {
			close(w.ready)
		}
		w = next
	}
	if g.lender != nil {
		g.lender.Returned()
	}
}
