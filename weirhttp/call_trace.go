package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

// A callTrace times one call of the next handler and reports it to the Observer. It
// is used by the call's goroutine only.
type callTrace struct {
	h      *Handler
	key    responses.Key
	info   CallInfo
	queued time.Duration
	apart  bool    // for an upgrade or an event stream, which are not timed
	flight *flight // the flight of the call, or nil

	ctx    context.Context // returned by CallStart; nil without an Observer
	start  time.Time
	headed time.Duration // from start
	status int           // of the response, 0 before it arrives
}

// begin starts t, and returns the request that the next handler gets instead of r.
// With an Observer that request has a separate copy of the fields: those that the
// Observer adds are not compared, not stored, and not part of a key.
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
	if f := fallbackOf(r.Context()); f != nil {
		t.info.Fallback, t.info.FallbackReason = f.Name, f.Reason
	}
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

// head records that the response headers have arrived.
func (t *callTrace) head(status int) {
	if t.status != 0 {
		return
	}
	t.status = status
	t.headed = time.Since(t.start)
	t.took(t.headed)
	t.h.work.took(t.headed)
	if status < 500 && !t.apart {
		t.h.chances.took(t.headed)
	}
	if t.flight == nil { // else flight.head counts: the flight may have failed before
		t.h.answered(status)
	}
}

// took records the time until the headers or the failure.
func (t *callTrace) took(d time.Duration) {
	if t.apart {
		return
	}
	t.h.calls.Record(d)
	t.h.hot.called(t.key, d)
}

// end ends t. err is nil if the response is complete.
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

// waited records how long c has waited for f, which another request had started, and
// reports it to the Observer. left: the client left before the headers arrived.
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

// tell calls f, which notifies an Observer, and counts its panics.
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
