package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
)

// A front counts who is inside, in front of a handler that can be replaced.
type front struct {
	handler atomic.Pointer[http.Handler]

	// Atomics, as every request changes one of them and a lock would be
	// contended for nothing else.
	requests atomic.Int64
	upgrades atomic.Int64 // those that asked for another protocol, and may stay for hours

	waits atomic.Bool
	left  chan struct{} // with room for one; somebody was the last to leave
}

func newFront() *front { return &front{left: make(chan struct{}, 1)} }

// set replaces the handler, for requests that come from now on.
func (f *front) set(h http.Handler) { f.handler.Store(&h) }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count := &f.requests
	if r.ProtoMajor == 1 && r.Header.Get("Upgrade") != "" && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		count = &f.upgrades
	}
	count.Add(1)
	defer f.leave(count)
	(*f.handler.Load()).ServeHTTP(w, r)
}

// leave tells wait about the last one. wait says first that it waits, and looks
// at the counters then, so that it sees either the zero or the token:
//
//	A: wait finds one inside
//	B: leaves, and finds nobody who waits
//	A: waits for ever
func (f *front) leave(count *atomic.Int64) {
	if count.Add(-1) == 0 && f.waits.Load() {
		select {
		case f.left <- struct{}{}:
		default:
		}
	}
}

// wait returns when nobody is inside, or ctx ends. It is for one goroutine.
func (f *front) wait(ctx context.Context) {
	f.waits.Store(true)
	for f.requests.Load()+f.upgrades.Load() > 0 {
		select {
		case <-f.left:
		case <-ctx.Done():
			return
		}
	}
}
