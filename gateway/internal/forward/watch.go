package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

// A watch calls fire once when something that was begun has not moved for d.
//
// The timer runs from the first begin and is not touched when something moves:
// when it ends, it looks at the clock and goes on for what is left.
type watch struct {
	d     atomic.Int64 // a Duration. Atomic: both directions read it, relax changes it
	fire  func()
	epoch time.Time
	last  atomic.Int64 // after epoch; when something moved. Atomic: it is hot

	mu     sync.Mutex
	active int         // guarded by mu: what was begun and has not ended
	timer  *time.Timer // guarded by mu; nil while it does not run
	over   bool        // guarded by mu
}

// start sets w up. With a d that is not positive it never fires.
func (w *watch) start(d time.Duration, fire func()) {
	w.fire, w.epoch = fire, time.Now()
	w.d.Store(int64(d))
}

// relax changes how long nothing may move: for what is found to be a stream, or
// has become a tunnel. A d that is not positive is forever.
func (w *watch) relax(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.Store(int64(max(d, 0)))
	if w.timer != nil && d > 0 && !w.over {
		w.timer.Reset(d) // check looks at what has moved meanwhile
	}
}

func (w *watch) moved() {
	if w.d.Load() > 0 {
		w.last.Store(int64(time.Since(w.epoch)))
	}
}

// begin says that something should move from now on, until end.
func (w *watch) begin() {
	w.moved()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active++
	if d := time.Duration(w.d.Load()); d > 0 && w.timer == nil && !w.over {
		w.timer = time.AfterFunc(d, w.check)
	}
}

func (w *watch) end() {
	w.moved()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
}

// check is the timer.
func (w *watch) check() {
	w.mu.Lock()
	d := time.Duration(w.d.Load())
	rest := d - (time.Since(w.epoch) - time.Duration(w.last.Load()))
	fire := false
	switch {
	case w.over:
	case w.active == 0 || d <= 0:
		w.timer = nil // the next begin makes another
	case rest > 0:
		w.timer.Reset(rest)
	default:
		fire, w.over = true, true
	}
	w.mu.Unlock()
	if fire {
		w.fire()
	}
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
