package limit

// A waiter is one caller in a queue. All but ready is guarded by the mutex of
// the limiter that owns the queue.
type waiter struct {
	ready chan struct{} // closed after the grant; nil for a Reservation, which nobody waits on

	granted bool   // by the limiter, in the same critical section as the pop
	id      uint64 // of the permit; written with granted, before ready is closed

	queued     bool // whether it is in a queue
	prev, next *waiter
}

// A queue holds the callers that wait, in the order in which they will be let
// in. That order is decided here alone, by push and pop: a class of its own
// for each Priority, and last in first out under overload, are changes to
// these two. remove costs the same from anywhere.
//
// The zero queue is empty and ready to use. It has no lock of its own.
type queue struct {
	head, tail *waiter
	n          int
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
}

// pop takes off the waiter whose turn it is, nil if there is none.
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
	return true
}

// A grants is a chain of waiters that were let in, first in first, to be woken
// once the lock is released. It uses the links of the waiters, which are in no
// queue any more.
type grants struct{ first, last *waiter }

// add lets w in with the permit id. The limiter's mutex must be held.
func (g *grants) add(w *waiter, id uint64) {
	w.granted, w.id = true, id
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
}
