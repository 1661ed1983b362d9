package fleet

import (
	"sync"
	"sync/atomic"
	"time"
)

// failuresInRow is how many questions in a row are to fail before the engine is
// left alone. One may be lost for many reasons, and is dealt with by itself.
const failuresInRow = 3

// A health says whether the engine answers. It is of all keys of a limiter: when
// the engine hangs, only the first callers wait for it.
type health struct {
	// Atomics, as every question of every line looks at them.
	failing atomic.Bool  // the last question has failed
	tryAt   atomic.Int64 // when the engine may be called again; 0: it is not left alone

	mu    sync.Mutex
	fails int    // guarded by mu; in a row
	n     uint64 // guarded by mu; rows so far
	cause error  // guarded by mu; of the last
}

// down reports whether the engine is left alone.
func (h *health) down() bool { return h.tryAt.Load() != 0 }

// try reports whether the engine is left alone, and the caller is the one to ask
// it whether that is over. Nobody else is before retry has passed.
func (h *health) try(now, retry time.Duration) bool {
	at := h.tryAt.Load()
	return at != 0 && int64(now) >= at && h.tryAt.CompareAndSwap(at, int64(now+retry))
}

// failed notes that a question has failed.
func (h *health) failed(now, retry time.Duration, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails == 0 {
		h.n++
	}
	h.fails++
	h.cause = cause
	h.failing.Store(true)
	if h.fails >= failuresInRow {
		h.tryAt.Store(int64(now + retry))
	}
}

// answered notes that one has not.
func (h *health) answered() {
	if !h.failing.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = 0
	h.failing.Store(false)
	h.tryAt.Store(0)
}

// outage returns how many rows of failures there were, and whether one is going
// on.
func (h *health) outage() (n uint64, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n, h.fails > 0
}

// until returns how long it is until the engine is called again, and why it is
// not now.
func (h *health) until(now time.Duration) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.tryAt.Load()) - now, h.cause
}
