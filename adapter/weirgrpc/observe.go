package weirgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// seen is an execution that shares nothing, or a stream, as the Observer sees it.
type seen struct {
	ctx    context.Context // of the call; after begin, for the handler
	e      *engine
	m      *method
	queued time.Duration
	stream bool

	info  weir.LoadInfo
	start time.Time
}

// begin reports that the call was admitted.
func (s *seen) begin() {
	if s.e.o.Observer == nil {
		return
	}
	s.info = weir.LoadInfo{Guard: s.e.nameOf(s.m), Key: Key{Method: s.m.name}, Keys: 1, Stream: s.stream}
	s.start = time.Now()
	s.e.observe(s.m, func(o weir.Observer) {
		if own := o.LoadStart(s.ctx, s.info); own != nil {
			s.ctx = own
		}
	})
}

// end reports that the execution has ended with err.
func (s *seen) end(err error) {
	if s.e.o.Observer == nil {
		return
	}
	end := weir.LoadEnd{Start: s.start, Duration: time.Since(s.start), Queued: s.queued}
	sent := statusOf(err, false)
	switch code := codeOf(sent); { // as a Guard reports shared executions
	case err == nil:
	case code == codes.NotFound:
		end.Err, end.Class = err, weir.ClassNotFound
	case !isAnswer(code):
		end.Err, end.Class = coded{err, code}, s.m.policy.classify(&failure{err: sent, cause: err})
	}
	s.e.observe(s.m, func(o weir.Observer) { o.LoadEnd(context.WithoutCancel(s.ctx), s.info, end) })
}

// A coded is the failure of an execution that shares nothing, as the Observer gets it.
type coded struct {
	error
	code codes.Code
}

func (c coded) Unwrap() error { return c.error }

// ErrorType is the error.type in traces and metrics.
func (c coded) ErrorType() string { return typeOf(c.code) }

// rejected reports a call or stream that was not admitted because of err, for which it has
// waited since began: as a Guard reports a caller whose load did not start.
func (e *engine) rejected(ctx context.Context, m *method, began time.Time, err error) {
	if e.o.Observer == nil {
		return
	}
	wait := weir.Wait{Guard: e.nameOf(m), Start: began, Duration: time.Since(began), Err: err}
	e.observe(m, func(o weir.Observer) { o.Waited(ctx, wait) })
	if !errors.Is(err, limit.ErrLimited) {
		return
	}
	event := weir.Event{Guard: e.nameOf(m), Kind: weir.EventRefused, Key: Key{Method: m.name}, Err: err}
	e.observe(m, func(o weir.Observer) { o.Event(ctx, event) })
}

// nameOf returns the name of the policy of m, which its Guard has too.
func (e *engine) nameOf(m *method) string { return e.o.Name + m.policy.pattern }

// observe calls fn with the Observer, which must be set. A panic in it is ignored and
// counted.
func (e *engine) observe(m *method, fn func(weir.Observer)) {
	defer func() {
		if recover() != nil {
			m.counts.observerPanics.Add(1)
		}
	}()
	fn(e.o.Observer)
}

// An observedServerStream has the context that the Observer has returned.
type observedServerStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s observedServerStream) Context() context.Context { return s.ctx }
