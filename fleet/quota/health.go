package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

// failuresInRow is the number of failed requests in a row after which the limiter
// stops calling the engine. A single request can be lost for many reasons, and is
// handled alone.
const failuresInRow = 3

// A health tracks whether the engine responds. All keys of a limiter share it: when
// the engine hangs, only the first callers wait for it.
type health struct {
	// Atomics, because every request of every line reads them.
	failing atomic.Bool  // the last request has failed
	tryAt   atomic.Int64 // when the engine may be called again; 0: at any time

	mu    sync.Mutex
	fails int    // guarded by mu; in a row
	n     uint64 // guarded by mu; rows of failures so far
	cause error  // guarded by mu; of the last failure
}

// down reports whether calls of the engine are suspended.
func (h *health) down() bool { return h.tryAt.Load() != 0 }

// try reports whether calls of the engine are suspended and this caller should now
// test the engine. No other caller should until retry has passed.
func (h *health) try(now, retry time.Duration) bool {
	at := h.tryAt.Load()
	return at != 0 && int64(now) >= at && h.tryAt.CompareAndSwap(at, int64(now+retry))
}

// failed records a failed request.
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

// answered records a request that succeeded.
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

// outage returns how many rows of failures there were, and whether one is in
// progress.
func (h *health) outage() (n uint64, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n, h.fails > 0
}

// until returns how long the engine will not be called, and the last error as the
// reason.
func (h *health) until(now time.Duration) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.tryAt.Load()) - now, h.cause
}
