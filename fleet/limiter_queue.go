package fleet

import (
	"time"

	"github.com/weir-go/weir/limit"
)

// A waiter is a caller that waits for a permit, or only for the engine's
// answer. All but done is guarded by the mutex of the line.
type waiter struct {
	done    chan struct{} // closed once err is final
	err     error         // written before done is closed, read only after
	patient bool          // waits for a permit
	reason  limit.Reason  // of its refusal, if it is not patient
	latest  time.Duration // a permit then is of no use, if it is; its deadline
	longest time.Duration // a permit after that comes too late, if it is; its MaxWait
	places  int           // how many may wait, if it is; the Queue when it came

	settled    bool
	until      time.Duration // of the lease that its permit is of, 0 if it is of none
	prev, next *waiter
}

// late returns why w is not to wait until at, 0 if it is.
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

// A waiters is a queue, in the order of arrival. The zero waiters is empty and
// ready to use. It has no lock of its own.
type waiters struct {
	head, tail *waiter
	n, patient int
}

// push puts a copy of one at the end, and returns it.
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

// remove takes w, which must be in the queue, off from wherever it stands.
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

// resolve takes w off the queue and tells it. To close a channel wakes a
// goroutine but runs none of anybody's code, so it is done under the lock.
func (q *waiters) resolve(w *waiter, err error) {
	q.remove(w)
	w.settled, w.err = true, err
	close(w.done)
}
