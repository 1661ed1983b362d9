package journal

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// A waker wakes the waiters of a job that may have changed. It wakes all waiters when
// a lost connection is back, because they may have missed changes.
type waker struct {
	journal *Journal
	status  chan nats.Status

	mu   sync.Mutex
	next int                   // guarded by mu
	all  map[int]chan struct{} // guarded by mu
}

func (w *waker) start(j *Journal) {
	w.journal = j
	w.all = make(map[int]chan struct{})
	w.status = j.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	j.done.Go(w.run)
}

func (w *waker) run() {
	for {
		select {
		case <-w.journal.life.Done():
			return
		case _, ok := <-w.status:
			if !ok {
				return
			}
			w.mu.Lock()
			for _, ch := range w.all {
				ring(ch)
			}
			w.mu.Unlock()
		}
	}
}

func (w *waker) close() { w.journal.nc.RemoveStatusListener(w.status) }

// ring wakes a waiter without blocking: one pending wake-up is enough.
func ring(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (w *waker) add(ch chan struct{}) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.all[id] = ch
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, id)
	}
}

// Changed returns a channel that receives a value soon after the job's state is
// written, and whenever such a message may have been lost. A waiter reads the job
// after it has called Changed, and also periodically.
func (j *Journal) Changed(queue, id string) (<-chan struct{}, func(), error) {
	ch := make(chan struct{}, 1)
	remove := j.waker.add(ch)
	sub, err := j.nc.Subscribe(j.changed(queue, id), func(*nats.Msg) { ring(ch) })
	if err != nil {
		remove()
		return nil, nil, j.mapError(err)
	}
	return ch, func() {
		remove()
		sub.Unsubscribe() // fails only if the connection is closed
	}, nil
}

// Closed returns a channel that is closed with the Journal.
func (j *Journal) Closed() <-chan struct{} { return j.life.Done() }

// TellCanceled notifies the workers of a queue that a job was canceled. The message
// is a hint and can be lost.
func (j *Journal) TellCanceled(queue, id string) {
	j.nc.Publish(j.canceled(queue), []byte(id)) // if it is lost, the next heartbeat notices
}

// TellFree notifies the workers of a queue that a lock or gate may be free. The message
// is a hint and can be lost.
func (j *Journal) TellFree(queue, id string) {
	j.nc.Publish(j.free(queue), []byte(id)) // if it is lost, the delays of the waiting jobs end
}

// Freed calls f with the IDs of a queue's locks and gates that may be free.
func (j *Journal) Freed(queue string, f func(id string)) (stop func(), err error) {
	sub, err := j.nc.Subscribe(j.free(queue), func(m *nats.Msg) { f(string(m.Data)) })
	if err != nil {
		return nil, j.mapError(err)
	}
	return func() { sub.Unsubscribe() }, nil
}

// HandBack hands a work item back without a delay, given the reply subject of any of its
// deliveries.
func (j *Journal) HandBack(reply string) {
	j.nc.Publish(reply, []byte("-NAK")) // if it is lost, the item's delay ends
}

// Canceled calls f with the IDs of a queue's jobs as they are canceled.
func (j *Journal) Canceled(queue string, f func(id string)) (stop func(), err error) {
	sub, err := j.nc.Subscribe(j.canceled(queue), func(m *nats.Msg) { f(string(m.Data)) })
	if err != nil {
		return nil, j.mapError(err)
	}
	return func() { sub.Unsubscribe() }, nil
}
