package quota

import (
	"time"

	"github.com/weir-go/weir/limit"
)

// A waiter is a caller that waits for a permit, or only for the engine's response.
// The mutex of the line guards all fields but done.
type waiter struct {
	done    chan struct{} // closed once err is final
	err     error         // written before done is closed, read only after
	patient bool          // waits for a permit, not only for a response
	reason  limit.Reason  // of its refusal, if not patient
	latest  time.Duration // its deadline, if patient: a permit at that instant is too late
	longest time.Duration // the end of its MaxWait, if patient: a permit after it is too late
	places  int           // the Queue when it came, if patient: how many may wait

	settled    bool
	until      time.Duration // the end of its permit's lease; 0 if the permit is not leased
	prev, next *waiter
}

// late returns the reason why w should not wait until at; 0 if it should.
func (w *waiter) late(at time.Duration) limit.Reason {
	switch {
	case !w.patient:
		return w.reason
	case at > w.longest:
		return limit.RateExceeded
	case at >= w.latest:
		return limit.WaitTooLong
	}
	return 0
}

// A waiters is a queue, in the order of arrival. The zero waiters is empty and ready
// to use. It has no lock.
type waiters struct {
	head, tail *waiter
	n, patient int
}

// push appends a copy of one, and returns it.
func (q *waiters) push(one waiter) *waiter {
	w := &one
	w.done = make(chan struct{})
	w.prev, w.next = q.tail, nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n++
	if w.patient {
		q.patient++
	}
	return w
}

// remove takes w, which must be in the queue, out of it, at any position.
func (q *waiters) remove(w *waiter) {
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
	w.prev, w.next = nil, nil
	q.n--
	if w.patient {
		q.patient--
	}
}

// resolve takes w out of the queue and wakes its caller. Closing a channel wakes a
// goroutine but runs no user code, so it happens under the lock.
func (q *waiters) resolve(w *waiter, err error) {
	q.remove(w)
	w.settled, w.err = true, err
	close(w.done)
}
