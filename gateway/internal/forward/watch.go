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
	d     time.Duration
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
	w.d, w.fire, w.epoch = d, fire, time.Now()
}

func (w *watch) moved() {
	if w.d > 0 {
		w.last.Store(int64(time.Since(w.epoch)))
	}
}

// begin says that something should move from now on, until end.
func (w *watch) begin() {
	if w.d <= 0 {
		return
	}
	w.moved()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active++
	if w.timer == nil && !w.over {
		w.timer = time.AfterFunc(w.d, w.check)
	}
}

func (w *watch) end() {
	if w.d <= 0 {
		return
	}
	w.moved()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
}

// check is the timer.
func (w *watch) check() {
	w.mu.Lock()
	rest := w.d - (time.Since(w.epoch) - time.Duration(w.last.Load()))
	fire := false
	switch {
	case w.over:
	case w.active == 0:
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
