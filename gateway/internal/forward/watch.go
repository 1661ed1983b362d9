package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

// A watch calls stalled once when an activity that has begun makes no progress for
// d.
//
// The timer runs from the first begin and is not touched by progress: when it
// fires, it checks the clock and continues for the remaining time.
type watch struct {
	d     atomic.Int64 // a Duration; atomic because both directions read it and relax changes it
	fire  interface{ stalled() }
	epoch time.Time
	last  atomic.Int64 // time of the last progress, after epoch; atomic because it is hot

	mu     sync.Mutex
	active int         // guarded by mu: activities that have begun and not ended
	timer  *time.Timer // guarded by mu; nil while it is not running
	over   bool        // guarded by mu
}

// start sets up w. If d is not positive, it never fires.
func (w *watch) start(d time.Duration, fire interface{ stalled() }) {
	w.fire, w.epoch = fire, time.Now()
	w.d.Store(int64(d))
}

// relax changes d, when the body turns out to be a stream or the connection
// became a tunnel. A d that is not positive means no limit.
func (w *watch) relax(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.Store(int64(max(d, 0)))
	if w.timer != nil && d > 0 && !w.over {
		w.timer.Reset(d) // check takes earlier progress into account
	}
}

func (w *watch) moved() {
	if w.d.Load() > 0 {
		w.last.Store(int64(time.Since(w.epoch)))
	}
}

// begin records that progress is expected from now on, until end.
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

// check runs when the timer fires.
func (w *watch) check() {
	w.mu.Lock()
	d := time.Duration(w.d.Load())
	rest := d - (time.Since(w.epoch) - time.Duration(w.last.Load()))
	fire := false
	switch {
	case w.over:
	case w.active == 0 || d <= 0:
		w.timer = nil // the next begin creates another
	case rest > 0:
		w.timer.Reset(rest)
	default:
		fire, w.over = true, true
	}
	w.mu.Unlock()
	if fire {
		w.fire.stalled()
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
