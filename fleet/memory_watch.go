package fleet

import (
	"slices"
	"strings"
	"sync"
)

// maxUntold bounds the pushes queued for one Watcher. A Watcher that falls further
// behind gets a single Reset instead of the queued pushes.
const maxUntold = 1 << 14

// maxUntoldValues is the number of queued pushes from which values are dropped: they are
// large, and a Watcher that does not get one asks for it.
const maxUntoldValues = 1 << 10

// An event is a call to a Watcher.
type event struct {
	kind    eventKind
	name    string // of a key, or a tag
	number  uint64 // a fence, or an invalidation's
	removed bool
	entry   Entry // for valued; number is the engine's time
}

type eventKind uint8

const (
	changed eventKind = iota
	valued
	released
	tagged
	expired
	lost
	reset
	recovered
)

func (e event) tell(w Watcher) {
	switch e.kind {
	case changed:
		w.Changed(e.name, e.number, e.removed)
	case valued:
		w.Pushed(e.name, e.entry, e.number)
	case released:
		w.Released(e.name)
	case tagged:
		w.Tagged(e.name, e.number)
	case expired:
		w.Expired(e.name, e.number)
	case lost:
		w.Lost()
	case reset:
		w.Reset()
	case recovered:
		w.Recovered()
	}
}

// A watch calls one Watcher, one call after another, on a goroutine that runs while
// events are queued.
type watch struct {
	w Watcher

	mu      sync.Mutex
	queue   []event       // guarded by mu
	running bool          // guarded by mu: the goroutine will check queue again
	calling chan struct{} // guarded by mu: closed when the last call has returned; nil before the first
	stopped bool          // guarded by mu
}

// add appends e to the queue.
func (w *watch) add(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || e.kind == valued && len(w.queue) >= maxUntoldValues {
		return
	}
	if len(w.queue) >= maxUntold {
		w.queue = append(w.queue[:0], event{kind: reset})
	}
	w.queue = append(w.queue, e)
	if !w.running {
		w.running = true
		go w.run() // ends when the queue is empty, or at stop
	}
}

func (w *watch) run() {
	for w.next() {
	}
}

// next makes one call. It reports false if there was none.
func (w *watch) next() bool {
	w.mu.Lock()
	if len(w.queue) == 0 || w.stopped {
		w.running, w.queue = false, nil
		w.mu.Unlock()
		return false
	}
	e, done := w.queue[0], make(chan struct{})
	w.queue, w.calling = w.queue[1:], done
	w.mu.Unlock()
	defer close(done)
	e.tell(w.w)
	return true
}

// stop waits for the call in progress, if any. No call follows it.
func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	calling := w.calling
	w.mu.Unlock()
	if calling != nil {
		<-calling
	}
}

// Watch implements [Tier].
func (m *Memory) Watch(namespace string, watcher Watcher) (stop func(), err error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, &UnavailableError{Op: "watch", Err: errMemoryClosed}
	}
	namespace = strings.Clone(namespace)
	w := &watch{w: watcher}
	m.watchers[namespace] = append(m.watchers[namespace], w)
	return func() {
		m.unwatch(namespace, w)
		w.stop()
	}, nil
}

func (m *Memory) unwatch(namespace string, w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.watchers[namespace]
	i := slices.Index(all, w)
	switch {
	case i < 0: // stopped before, or closed
	case len(all) == 1:
		delete(m.watchers, namespace)
	default:
		m.watchers[namespace] = slices.Delete(all, i, i+1)
	}
}

// tellLocked sends e to the watchers of a namespace. Because it runs under the lock,
// all of them get the changes in order. m.mu must be held.
func (m *Memory) tellLocked(namespace string, e event) {
	for _, w := range m.watchers[namespace] {
		w.add(e)
	}
}
