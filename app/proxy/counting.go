package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
)

// A countingHandler counts the requests in progress in its handler, which can be
// replaced.
type countingHandler struct {
	handler atomic.Pointer[http.Handler]

	// Atomics, because every request changes one of them, and a lock would be contended
	// for nothing else.
	requests atomic.Int64
	upgrades atomic.Int64 // those that requested another protocol, which can last for hours

	waits atomic.Bool
	left  chan struct{} // with room for one; receives a token when the last request ends
}

func newCountingHandler() *countingHandler { return &countingHandler{left: make(chan struct{}, 1)} }

// set replaces the handler for requests that arrive from now on.
func (c *countingHandler) set(handler http.Handler) { c.handler.Store(&handler) }

func (c *countingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count := &c.requests
	if r.ProtoMajor == 1 && r.Header.Get("Upgrade") != "" && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		count = &c.upgrades
	}
	count.Add(1)
	defer c.leave(count)
	(*c.handler.Load()).ServeHTTP(w, r)
}

// leave notifies wait of the last request. wait sets waits before it looks at the
// counters, so that it sees either the zero or the token. In the other order:
//
//	A: wait finds one request left
//	B: leaves, and finds no waiter
//	A: never returns
func (c *countingHandler) leave(count *atomic.Int64) {
	if count.Add(-1) == 0 && c.waits.Load() {
		select {
		case c.left <- struct{}{}:
		default:
		}
	}
}

// wait returns when no request is left, or ctx ends. Only one goroutine may call it.
func (c *countingHandler) wait(ctx context.Context) {
	c.waits.Store(true)
	for c.requests.Load()+c.upgrades.Load() > 0 {
		select {
		case <-c.left:
		case <-ctx.Done():
			return
		}
	}
}
