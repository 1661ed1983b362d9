package weirhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/limit"
)

var _ Sink = (*passthroughWriter)(nil)

// pass hands r to the next handler as it is, under the limits: it concerns no
// cache. Upgrades and event streams are counted apart from calls, as they are
// held for long (H14).
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, q rfc9111.Request, came time.Time, turn uint64) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	c := &call{h: h, w: w, r: r, q: q, endless: q.Upgrade || q.Streams}
	defer c.over(came)
	key := h.hot.keyOf(r, c.endless)
	h.hot.asked(key, came, turn)
	if h.o.Priority != nil {
		c.demand.Priority = h.o.Priority(r)
	} else {
		c.demand.Priority = limit.PriorityOf(ctx)
	}
	limiter := h.o.Limiter
	if c.endless {
		limiter = h.o.Streams
		h.count.streams.Add(1)
		defer h.count.streams.Add(-1)
	}
	p := &passthroughWriter{ResponseWriter: w, h: h, r: r, c: c, ctx: ctx, length: -1}
	p.client.Start(p.terms(), h.cutter(w, cancel))
	defer p.client.Close()
	if p.ahead() {
		defer p.giveBack()
		var err error
		if r, err = p.readAhead(ctx, r); err != nil {
			c.fail(err)
			return
		}
	}
	if !c.endless {
		h.press()
	}
	ctx, permit, leave, err := c.admit(ctx, limiter)
	defer leave()
	if err != nil {
		c.fail(err)
		return
	}
	p.permit, p.ctx = permit, ctx
	defer func() { p.permit.Release(limit.Ignored) }()
	if !c.endless {
		p.client.Hold(h.crowds)
	}
	h.count.calls.Add(1)
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	p.trace = callTrace{h: h, key: key, apart: c.endless, queued: c.receipt.Queued, info: CallInfo{Request: r}}
	r = p.trace.begin(r.WithContext(ctx))
	p.final = coalesce.ErrGoexit // of which the handler does not come back
	defer func() { p.trace.end(p.final) }()
	wait, late := h.o.HeadTimeout, errNoHead
	if c.endless {
		wait, late = h.o.StreamIdleTimeout, errIdle
	}
	if wait > 0 {
		p.wait = wait
		p.timer = time.AfterFunc(wait, func() {
			if !p.answered.Load() { // an upload may have set it anew meanwhile
				cancel(late)
			}
		})
		defer p.timer.Stop()
	}
	p.still.Store(int64(h.idleTimeout(c.endless)))
	if h.o.IdleTimeout > 0 || h.o.StreamIdleTimeout > 0 {
		p.idle = time.AfterFunc(forever, func() { cancel(errIdle) }) // from the head on
		defer p.idle.Stop()
	}
	if p.uploads(r) {
		r.Body = upload{r.Body, p}
	}
	err = h.protect(p, r)
	if err == nil && !p.whole() {
		err = p.client.Err() // which the handler has swallowed
	}
	p.permit.Release(outcome(p.status, err))
	p.end(err)
}

// A passthroughWriter is the ResponseWriter of a request that bypasses the cache.
type passthroughWriter struct {
	http.ResponseWriter
	h      *Handler
	r      *http.Request
	c      *call
	ctx    context.Context
	permit limit.Permit
	timer  *time.Timer // bounds the time to the head, nil without
	wait   time.Duration
	idle   *time.Timer  // bounds the time without progress after it, nil without
	still  atomic.Int64 // how long that is, as a Duration: a stream may be found to be one at its head
	status int          // of the final answer
	err    error        // of Fail
	lost   bool         // the client does not take the answer
	trace  callTrace
	client slow.Client
	took   int64       // memory of the body that was read ahead
	length int64       // of the answer's body, as declared, -1 without
	wrote  int64       // of it
	final  error       // with which the answer has ended
	headed atomic.Bool // the head has been written
	// answered: so has it, or the connection was taken over.
	answered atomic.Bool
}

// moved notes that there was progress in a body.
func (p *passthroughWriter) moved() {
	switch {
	case p.idle != nil && p.headed.Load():
		if d := time.Duration(p.still.Load()); d > 0 {
			p.idle.Reset(d)
		}
	case p.timer != nil && !p.answered.Load():
		p.timer.Reset(p.wait) // who is still sending cannot have an answer yet
	}
}

// An upload is the body of a request. To read it is progress too, and may be
// done on another goroutine than the one that writes the answer.
type upload struct {
	io.ReadCloser
	p *passthroughWriter
}

func (u upload) Read(b []byte) (int, error) {
	u.p.client.Begin(slow.Up, 0)
	n, err := u.ReadCloser.Read(b)
	u.p.client.End(slow.Up, n)
	u.p.moved()
	return n, err
}

// uploads reports whether the body of r comes from the client still.
func (p *passthroughWriter) uploads(r *http.Request) bool {
	switch r.Body.(type) {
	case nil, *readBody, begunBody:
		return false
	}
	return r.Body != http.NoBody
}

// terms are what p's client has to keep up. Whether the answer is a stream shows
// at its head.
func (p *passthroughWriter) terms() slow.Terms {
	if p.c.q.Upgrade || isGRPC(p.r.Header) {
		return slow.Terms{}
	}
	return p.h.o.Clients.terms()
}

// Unwrap is for http.ResponseController.
func (p *passthroughWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader writes the head. An answer that is no error, to a request that
// may have changed something, invalidates before the client can know of it.
func (p *passthroughWriter) WriteHeader(status int) {
	if p.status != 0 || p.err != nil {
		return
	}
	if status == http.StatusSwitchingProtocols && !p.c.q.Upgrade {
		p.err = errUnasked(status)
		return
	}
	if err := p.client.Err(); err != nil {
		p.err = err // what the handler says is only what followed from it
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.status = status
	p.answered.Store(true)
	p.trace.head(status)
	p.c.receipt.UpstreamStatus = status
	if p.timer != nil {
		p.timer.Stop()
	}
	if isStream(p.Header()) {
		p.still.Store(int64(p.h.idleTimeout(true)))
	}
	if status != http.StatusSwitchingProtocols {
		p.headed.Store(true)
		p.moved()
	}
	scheme, own := p.h.scheme(p.r), *p.r
	own.RequestURI = target(p.r) // as it is in the key
	for _, t := range rfc9111.Invalidates(&own, scheme, status, p.Header()) {
		_, _ = p.h.cache.Invalidate(context.Background(), scheme, p.r.Host, t) // it is counted, and sent again
	}
	if isStream(p.Header()) {
		p.client.Endless()
	}
	if isStream(p.Header()) && !p.c.q.Streams {
		p.permit = p.h.stream(p.ctx, p.permit)
		p.c.endless = true
	}
	if status == http.StatusSwitchingProtocols {
		p.c.report(OutcomePass)
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.c.writeHead(OutcomePass, status)
	if n, err := strconv.ParseInt(p.Header().Get("Content-Length"), 10, 64); err == nil {
		p.length = n
	}
	p.written(0)
}

// written is called before n bytes of the body are written. If they are the last,
// the origin has done its part: what the client takes its time with is here, and
// needs no permit. Only of a forwarder is it known that it does nothing after.
func (p *passthroughWriter) written(n int) {
	p.wrote += int64(n)
	none := p.r.Method == http.MethodHead || p.status == http.StatusNoContent || p.status == http.StatusNotModified
	if p.h.o.Gateway && (p.wrote == p.length || none) {
		p.permit.Release(outcome(p.status, nil))
		p.client.Leave()
	}
}

// Write writes a piece of the body.
func (p *passthroughWriter) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.status == 0 {
		if p.WriteHeader(http.StatusOK); p.err != nil {
			return 0, p.err
		}
	}
	if p.idle != nil {
		p.idle.Stop() // the time that the client takes
		defer p.moved()
	}
	p.written(len(b))
	p.client.Begin(slow.Down, len(b))
	n, err := p.ResponseWriter.Write(b)
	p.client.End(slow.Down, n)
	p.lost = p.lost || isLost(err)
	return n, err
}

// Hijack is [http.Hijacker]. What is said on the connection is not looked at.
func (p *passthroughWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err == nil && p.status == 0 {
		p.status = http.StatusSwitchingProtocols
		p.client.Close()
		p.answered.Store(true)
		p.trace.head(p.status)
		p.c.endless = true
		if p.timer != nil {
			p.timer.Stop()
		}
		p.c.report(OutcomePass)
	}
	return conn, rw, err
}

// FlushError is for http.ResponseController.
func (p *passthroughWriter) FlushError() error {
	if p.err != nil {
		return p.err
	}
	if p.status == 0 {
		if p.WriteHeader(http.StatusOK); p.err != nil {
			return p.err
		}
	}
	p.client.Begin(slow.Down, 0)
	defer p.client.End(slow.Down, 0)
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Flush is [http.Flusher].
func (p *passthroughWriter) Flush() { _ = p.FlushError() }

// Fail is of [Sink].
func (p *passthroughWriter) Fail(err error) {
	if p.status == 0 && p.err == nil {
		p.err = err
	}
}

// CloseDelimited is of [Sink]. Nothing of it is stored anyway.
func (p *passthroughWriter) CloseDelimited() {}

// whole reports whether what was written is all of the answer, or net/http sees
// for itself that it is not.
func (p *passthroughWriter) whole() bool {
	switch p.status {
	case 0:
		return false
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return true
	}
	return p.r.Method == http.MethodHead || p.Header().Get("Content-Length") != ""
}

// end is called when the handler has returned, with what it panicked with.
func (p *passthroughWriter) end(err error) {
	if err == nil {
		err = p.err
	}
	if p.ctx.Err() != nil && (err != nil || !p.whole()) {
		err = context.Cause(p.ctx) // the handler may just have given up, and returned
	}
	p.final = err
	switch {
	case err == nil && p.status == 0:
		p.WriteHeader(http.StatusOK)
	case err == nil:
	case p.status == 0:
		p.c.noAnswer(err)
		p.c.fail(err)
	default:
		p.c.cutOff(p.status, p.lost || errors.Is(err, ErrSlowClient))
		p.c.broken(err)
	}
}

// stream exchanges the permit of a call whose answer turned out to go on
// without an end for one of Streams, if one is free.
func (h *Handler) stream(ctx context.Context, held limit.Permit) limit.Permit {
	p, err := h.o.Streams.Acquire(ctx)
	if err != nil {
		return held
	}
	held.Release(limit.Ignored)
	return p
}
