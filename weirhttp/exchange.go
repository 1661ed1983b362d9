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
	"github.com/weir-go/weir/plain"
)

// exchange calls the next handler with r, whose context is ctx, and returns how
// the answer ended: nil says that it is whole. cancel is called with the cause
// when the answer takes too long; late is too, if it is not nil, on a goroutine
// of its own: the handler may not look at its context.
func (h *Handler) exchange(r *http.Request, s *sink, cancel context.CancelCauseFunc, late func(error)) (err error) {
	h.count.calls.Add(1)
	if s.trace.info.Background {
		h.count.refreshes.Add(1)
	}
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	r = s.trace.begin(r)
	defer func() { s.trace.end(err) }()
	stop := func(err error) {
		cancel(err)
		if late != nil {
			late(err)
		}
	}
	if h.o.HeadTimeout > 0 {
		s.got = time.AfterFunc(h.o.HeadTimeout, func() { stop(errNoHead) })
		defer s.got.Stop()
	}
	if h.o.IdleTimeout > 0 || h.o.StreamIdleTimeout > 0 {
		s.idle = time.AfterFunc(forever, func() { stop(errIdle) }) // from the head on, see sink
		defer s.idle.Stop()
	}
	err = coalesce.ErrGoexit // of which protect does not come back
	err = h.protect(s, r)
	if err == errAborted && h.o.Gateway && s.status != 0 { //nolint:errorlint // protect returns it as it is
		// A forwarder whose upstream broke off. As long as the head is held back
		// there is a better answer than a reset.
		err = errBroken
	}
	if err == nil && r.Context().Err() != nil && !s.whole() {
		err = context.Cause(r.Context()) // it has just given up, and returned
	}
	err = s.end(err)
	if err != nil && r.Context().Err() != nil {
		return context.Cause(r.Context()) // what the handler says is only what followed from it
	}
	return err
}

// idleTimeout is how long nothing may move in the body of an answer that is an
// endless stream, or is none; 0 or less is no bound.
func (h *Handler) idleTimeout(endless bool) time.Duration {
	if endless {
		return h.o.StreamIdleTimeout
	}
	return h.o.IdleTimeout
}

// protect calls the next handler, and returns what it panicked with as an
// error: errAborted for http.ErrAbortHandler.
func (h *Handler) protect(w http.ResponseWriter, r *http.Request) (err error) {
	returned := false
	defer func() {
		switch v := recover(); {
		case v == nil && !returned:
			err = coalesce.ErrGoexit // and there is no way back from it
		case v == nil:
		case v == http.ErrAbortHandler: //nolint:errorlint // it is panicked with as it is
			err = errAborted
		default:
			e := &coalesce.PanicError{Value: v, Stack: debug.Stack()}
			h.panicked(r, e)
			err = e
		}
	}()
	h.next.ServeHTTP(w, r)
	returned = true
	return nil
}

// panicked tells of a panic of the next handler: the Observer, or without one
// the log where the server writes what its handlers panic with.
func (h *Handler) panicked(r *http.Request, e *coalesce.PanicError) {
	if h.o.Observer != nil {
		h.event(Event{Kind: EventPanicked, Request: r, Err: e})
		return
	}
	print := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		print = s.ErrorLog.Printf
	}
	print("weirhttp: the handler panicked: %s", plain.Text(e.Error()))
}

// forever is longer than any process lives.
const forever = time.Duration(math.MaxInt64)

// Errors of calls.
var (
	// ErrAbandoned is the cause with which a call is canceled when the last
	// client has left.
	ErrAbandoned = errors.New("weirhttp: nobody waits for the answer any more")

	// ErrClosed is the cause with which calls end at [Handler.Close].
	ErrClosed = fmt.Errorf("weirhttp: the handler was closed: %w", weir.ErrClosed)

	errNoHead = fmt.Errorf("weirhttp: no answer in time: %w", context.DeadlineExceeded)
	errIdle   = fmt.Errorf("weirhttp: no progress in the answer: %w", context.DeadlineExceeded)
	errBroken = errors.New("weirhttp: the answer broke off")
	// errAborted is that the handler panicked with http.ErrAbortHandler: its client
	// gets no answer, and neither does anybody who waited for the same.
	errAborted = fmt.Errorf("%w: http.ErrAbortHandler", errBroken)
	errShort   = errors.New("weirhttp: the answer is shorter than its Content-Length")
)
