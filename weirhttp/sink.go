package weirhttp

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/alarm"
)

var _ Sink = (*sink)(nil)

// maxPending is how much of a body is held back until its handler flushes or returns.
// If it returns, the length is known. net/http does the same.
const maxPending = 2048

// A receiver receives the response that a handler writes into a sink.
type receiver interface {
	// early passes on a 1xx response.
	early(status int, h http.Header)
	// head is called once, with the fields of the final response, which do not change
	// any more, and the length of the body, -1 if unknown.
	head(status int, h http.Header, length int64)
	// data is called with the parts of the body, in order.
	data(p []byte) error
	// flush reports that it may take long until there is more.
	flush()
}

// A sink is the ResponseWriter of the next handler. It enforces the rules of one: the
// body has the declared length. It is used by one goroutine.
type sink struct {
	to     receiver
	method string
	trace  callTrace
	ticket *ticket

	header  http.Header
	fixed   http.Header // the header fields as they were at WriteHeader
	status  int         // of the final response, 0 before WriteHeader
	pending []byte      // part of the body, while the headers are held back
	headed  bool        // the headers were passed on
	length  int64       // as declared, -1 if unknown
	written int64
	noBody  bool // the response has no body, whatever is written
	ended   bool // the headers are passed on with all that follows: the handler has returned
	fin     bool // the body ends with the connection
	streams bool // the request asks for a stream

	// whether is set by the receiver with the headers: it returns an error if the
	// body is not complete although all of it has arrived. nil means that it is.
	whether func() error

	err    error // of Fail, or of the receiver
	wait   time.Duration
	paced  bool // the call ends if the body makes no progress for wait
	cancel context.CancelCauseFunc
	late   func(error) // see Handler.exchange
}

// Due implements [alarm.Target]: it ends the call.
func (s *sink) Due(which alarm.Slot) {
	err := errIdle
	if which == alarm.Head && !s.streams {
		err = errNoHead
	}
	s.cancel(err)
	if s.late != nil {
		s.late(err)
	}
}

// start sets up and returns s.
func (s *sink) start(to receiver, method string, t callTrace) *sink {
	*s = sink{to: to, method: method, trace: t, header: make(http.Header), length: -1}
	return s
}

// Header returns the header fields of the response, and later its trailers.
func (s *sink) Header() http.Header { return s.header }

// WriteHeader sets the status. After a 1xx status it may be called again.
func (s *sink) WriteHeader(status int) {
	switch {
	case s.status != 0 || s.err != nil:
		return // like net/http, which also logs it
	case status == http.StatusSwitchingProtocols:
		// A request for another protocol bypasses the cache, and has no sink.
		s.err = errUnasked(status)
		return
	case status >= 100 && status < 200:
		s.to.early(status, s.header.Clone())
		return
	}
	s.status = status
	s.fixed = canonicalFields(s.header) // a copy: the handler may go on to change its header map, for trailers
	s.ticket.charge.head(status, s.fixed)
	s.noBody = s.method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	if n, err := strconv.ParseInt(s.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		s.length = n
	}
	if s.length > maxPending || s.noBody {
		s.handOn() // waiting gains nothing
	}
}

// handOn passes on the headers, and the body that was held back.
func (s *sink) handOn() {
	if s.headed {
		return
	}
	s.headed = true
	s.trace.head(s.status)
	s.ticket.alarm.Clear(alarm.Head)
	s.wait = s.trace.h.idleTimeout(isStream(s.fixed))
	s.moved()
	s.to.head(s.status, s.fixed, s.length)
	if len(s.pending) > 0 {
		s.hand(s.pending)
		s.pending = nil
	}
}

// hand passes on a piece of the body. Time that the readers take does not count
// against the handler.
func (s *sink) hand(p []byte) {
	if s.paced {
		s.ticket.alarm.Clear(alarm.Idle)
	}
	if err := s.to.data(p); err != nil {
		s.err = err
	}
	s.moved()
}

// moved records progress.
func (s *sink) moved() {
	if s.paced && s.wait > 0 {
		s.ticket.alarm.Start(alarm.Idle, s, s.wait)
	}
}

// Write takes a piece of the body.
func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	if s.noBody {
		if s.method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if s.length >= 0 && s.written+int64(len(p)) > s.length {
		return 0, http.ErrContentLength
	}
	s.written += int64(len(p))
	s.ticket.charge.data(p)
	if !s.headed && len(s.pending)+len(p) <= maxPending {
		s.pending = append(s.pending, p...)
		return len(p), nil
	}
	s.handOn()
	s.hand(p)
	return len(p), s.err
}

// Flush implements [http.Flusher].
func (s *sink) Flush() {
	if s.err != nil {
		return
	}
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	s.handOn()
	s.to.flush()
}

// Fail implements [Sink].
func (s *sink) Fail(err error) {
	if s.status == 0 && s.err == nil {
		s.err = err
		s.ticket.fails(err)
	}
}

// CloseDelimited implements [Sink].
func (s *sink) CloseDelimited() { s.fin = true }

// whole reports whether the complete response has certainly been written.
func (s *sink) whole() bool {
	return s.status != 0 && (s.noBody || s.length >= 0 && s.written == s.length)
}

// end is called when the handler has returned, with the error of its panic, or nil.
// It returns the error that the response ends with: nil means that it is complete.
func (s *sink) end(panicked error) error {
	switch {
	case panicked != nil:
		return panicked
	case s.err != nil:
		return s.err
	case s.status == 0:
		s.WriteHeader(http.StatusOK)
	}
	if !s.headed && s.length < 0 && !s.noBody && s.trailers() == nil && s.fixed["Trailer"] == nil {
		s.length = s.written
		s.fixed.Set("Content-Length", strconv.FormatInt(s.length, 10))
	}
	s.ended = s.length < 0 || s.length == s.written
	s.handOn()
	if s.err == nil && s.length >= 0 && s.written != s.length && !s.noBody {
		return errShort
	}
	if s.err == nil && s.whether != nil && !s.noBody {
		return s.whether()
	}
	return s.err
}

// trailers returns the fields that the handler has set after the headers: those that
// it had announced, and those with [http.TrailerPrefix].
func (s *sink) trailers() http.Header {
	var t http.Header
	add := func(k string, v []string) {
		if t == nil {
			t = make(http.Header)
		}
		t[k] = v
	}
	for _, k := range announced(s.fixed) {
		if v, ok := s.header[k]; ok {
			add(k, v)
		}
	}
	for k, v := range s.header {
		if name, ok := cutTrailerPrefix(k); ok {
			add(name, v)
		}
	}
	return t
}
