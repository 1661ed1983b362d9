package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/weir-go/weir"
	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/plain"
)

// exchange calls the next handler with r, whose context is ctx, and returns how the
// response ended; nil means that it is complete. If the response takes too long,
// cancel is called with the cause. So is late, if it is not nil, on another
// goroutine, because the handler may ignore its context.
func (h *Handler) exchange(r *http.Request, s *sink, cancel context.CancelCauseFunc, late func(error)) (err error) {
	h.count.calls.Add(1)
	if s.trace.info.Background {
		h.count.refreshes.Add(1)
	}
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	r = s.trace.begin(r)
	defer func() { s.trace.end(err) }()
	s.cancel, s.late = cancel, late
	wait := h.headLeft(r.Context())
	if s.streams {
		wait = h.o.StreamIdleTimeout
	}
	if wait > 0 {
		s.ticket.alarm.Start(alarm.Head, s, wait)
		defer s.ticket.alarm.Clear(alarm.Head)
	}
	if s.paced = h.o.IdleTimeout > 0 || h.o.StreamIdleTimeout > 0; s.paced { // from the headers on
		defer s.ticket.alarm.Clear(alarm.Idle)
	}
	err = coalesce.ErrGoexit // in which case protect does not return
	err = h.protect(s, r)
	if err == errAborted && h.o.Gateway && s.status != 0 { //nolint:errorlint // protect returns it as it is
		// A forwarder whose upstream broke off. As long as the headers are held back,
		// an error response is better than a reset.
		err = errBroken
	}
	if err == nil && r.Context().Err() != nil && !s.whole() {
		err = context.Cause(r.Context()) // the handler has just given up and returned
	}
	err = s.end(err)
	if err != nil && r.Context().Err() != nil {
		return context.Cause(r.Context()) // the handler's error is only a consequence of it
	}
	return err
}

// idleTimeout is the maximum time without progress in the body of a response, which
// may be an endless stream; 0 or less means no bound.
func (h *Handler) idleTimeout(endless bool) time.Duration {
	if endless {
		return h.o.StreamIdleTimeout
	}
	return h.o.IdleTimeout
}

// protect calls the next handler, and returns its panic as an error: errAborted for
// http.ErrAbortHandler.
func (h *Handler) protect(w http.ResponseWriter, r *http.Request) (err error) {
	returned := false
	defer func() {
		switch v := recover(); {
		case v == nil && !returned:
			err = coalesce.ErrGoexit // and protect does not return
		case v == nil:
		case v == http.ErrAbortHandler: //nolint:errorlint // it is panicked with as it is
			err = errAborted
		default:
			e := &coalesce.PanicError{Value: v, Stack: debug.Stack()}
			h.panicked(r, e)
			err = e
		}
	}()
	h.next.ServeHTTP(w, h.costs.readable(r))
	returned = true
	return nil
}

// changesFields reports whether the next handler may change the fields of its request,
// and so must not get the map by which responses are selected and shared. A forwarder
// sends a copy.
func (h *Handler) changesFields() bool {
	_, transport := h.next.(sender)
	return !transport && !h.o.Gateway
}

// panicked reports a panic of the next handler to the Observer. Without one it goes
// to the log to which the server writes the panics of its handlers.
func (h *Handler) panicked(r *http.Request, e *coalesce.PanicError) {
	if h.o.Observer != nil {
		h.event(Event{Kind: EventPanicked, Request: r, Err: e})
		return
	}
	print := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		print = s.ErrorLog.Printf
	}
	print("weirhttp: the handler panicked: %s", plain.Text(fmt.Sprintf("%v\n\n%s", e.Value, e.Stack)))
}

// forever is longer than any process runs.
const forever = time.Duration(math.MaxInt64)

// Errors of calls.
var (
	// ErrAbandoned is the cause with which a call is canceled when the last
	// client has left.
	ErrAbandoned = errors.New("weirhttp: no client waits for the response any more")

	// ErrClosed is the cause with which calls end at [Handler.Close].
	ErrClosed = fmt.Errorf("weirhttp: the handler was closed: %w", weir.ErrClosed)

	errNoHead = fmt.Errorf("weirhttp: no response in time: %w", context.DeadlineExceeded)
	errIdle   = fmt.Errorf("weirhttp: no progress in the response: %w", context.DeadlineExceeded)
	errBroken = errors.New("weirhttp: the response broke off")
	// errAborted means that the handler panicked with http.ErrAbortHandler: neither
	// its client nor the requests that waited for the same call get a response.
	errAborted = fmt.Errorf("%w: http.ErrAbortHandler", errBroken)
	errShort   = errors.New("weirhttp: the response is shorter than its Content-Length")
)
