package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

// A leg is one call of the next handler, as it is timed and told of. It is used
// by the call's goroutine.
type leg struct {
	h      *Handler
	key    responses.Key
	info   CallInfo
	queued time.Duration
	apart  bool    // it is for an upgrade or an event stream, and not timed
	flight *flight // whose it is, or nil

	ctx    context.Context // that CallStart returned; nil: nobody is told
	start  time.Time
	headed time.Duration // from start
	status int           // of the head, 0 before
}

// begin starts l, and returns the request that the next handler gets in place of
// r. With a CallObserver that has fields of its own: what it adds is in nothing
// that is compared, stored, or part of a key.
func (l *leg) begin(r *http.Request) *http.Request {
	l.start = time.Now()
	o := l.h.told
	if o == nil {
		return r
	}
	header := r.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	l.info.Route = l.h.o.Route
	l.ctx = r.Context()
	l.h.tell(func() {
		if ctx := o.CallStart(r.Context(), l.info, header); ctx != nil {
			l.ctx = ctx
		}
	})
	if f := l.flight; f != nil {
		c := l.h.cache
		c.mu.Lock()
		f.call = l.ctx
		c.mu.Unlock()
	}
	r = r.WithContext(l.ctx)
	r.Header = header
	return r
}

// head notes that the head of the answer is there.
func (l *leg) head(status int) {
	if l.status != 0 {
		return
	}
	l.status = status
	l.headed = time.Since(l.start)
	l.took(l.headed)
	if l.flight == nil { // else flight.head counts: the flight may have failed before
		l.h.answered(status)
	}
}

// took counts the time to the head, or to the failure.
func (l *leg) took(d time.Duration) {
	if l.apart {
		return
	}
	l.h.calls.Record(d)
	l.h.hot.called(l.key, d)
}

// end ends l. err is nil if the answer is whole.
func (l *leg) end(err error) {
	if l.status == 0 {
		l.took(time.Since(l.start))
	}
	o := l.h.told
	if o == nil {
		return
	}
	end := CallEnd{
		Start: l.start, Headed: l.headed, Duration: time.Since(l.start), Queued: l.queued, Status: l.status, Err: err,
	}
	l.h.tell(func() { o.CallEnd(context.WithoutCancel(l.ctx), l.info, end) })
}

// waited counts how long c has waited for f, which another had started, and tells
// of it. left: its client has left before there was a head.
func (c *call) waited(f *flight, since time.Time, left bool) {
	h := c.h
	d := time.Since(since)
	h.waits.Record(d)
	if h.told == nil {
		return
	}
	w := Wait{Route: h.o.Route, Start: since, Duration: d}
	h.cache.mu.Lock()
	w.Call = f.call
	h.cache.mu.Unlock()
	if left {
		w.Err = context.Cause(c.r.Context())
	} else {
		w.Err = f.err
	}
	h.tell(func() { h.told.Waited(c.r.Context(), w) })
}

// tell calls what tells an Observer, and survives its panics.
func (h *Handler) tell(f func()) {
	defer func() { _ = recover() }()
	f()
}
