package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

// A callTrace times one call of the next handler and reports it to the Observer. It
// is used by the call's goroutine.
type callTrace struct {
	h      *Handler
	key    responses.Key
	info   CallInfo
	queued time.Duration
	apart  bool    // it is for an upgrade or an event stream, and not timed
	flight *flight // whose it is, or nil

	ctx    context.Context // that CallStart returned; nil: no Observer
	start  time.Time
	headed time.Duration // from start
	status int           // of the head, 0 before
}

// begin starts l, and returns the request that the next handler gets in place of
// r. With an Observer it has fields of its own: what it adds is in nothing
// that is compared, stored, or part of a key.
func (t *callTrace) begin(r *http.Request) *http.Request {
	t.start = time.Now()
	o := t.h.o.Observer
	if o == nil {
		return r
	}
	header := r.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	t.info.Route = t.h.o.Route
	t.ctx = r.Context()
	t.h.tell(func() {
		if ctx := o.CallStart(r.Context(), t.info, header); ctx != nil {
			t.ctx = ctx
		}
	})
	if f := t.flight; f != nil {
		c := t.h.cache
		c.mu.Lock()
		f.call = t.ctx
		c.mu.Unlock()
	}
	r = r.WithContext(t.ctx)
	r.Header = header
	return r
}

// head notes that the head of the answer is there.
func (t *callTrace) head(status int) {
	if t.status != 0 {
		return
	}
	t.status = status
	t.headed = time.Since(t.start)
	t.took(t.headed)
	if t.flight == nil { // else flight.head counts: the flight may have failed before
		t.h.answered(status)
	}
}

// took counts the time to the head, or to the failure.
func (t *callTrace) took(d time.Duration) {
	if t.apart {
		return
	}
	t.h.calls.Record(d)
	t.h.hot.called(t.key, d)
}

// end ends l. err is nil if the answer is whole.
func (t *callTrace) end(err error) {
	if t.status == 0 {
		t.took(time.Since(t.start))
	}
	o := t.h.o.Observer
	if o == nil {
		return
	}
	end := CallEnd{
		Start: t.start, Headed: t.headed, Duration: time.Since(t.start), Queued: t.queued, Status: t.status, Err: err,
	}
	t.h.tell(func() { o.CallEnd(context.WithoutCancel(t.ctx), t.info, end) })
}

// waited counts how long c has waited for f, which another had started, and tells
// of it. left: its client has left before there was a head.
func (c *call) waited(f *flight, since time.Time, left bool) {
	h := c.h
	d := time.Since(since)
	h.waits.Record(d)
	if h.o.Observer == nil {
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
	h.tell(func() { h.o.Observer.Waited(c.r.Context(), w) })
}

// tell calls what tells an Observer, and counts its panics.
func (h *Handler) tell(f func()) {
	returned := false
	defer func() {
		if !returned {
			_ = recover()
			h.count.observerPanics.Add(1)
		}
	}()
	f()
	returned = true
}
