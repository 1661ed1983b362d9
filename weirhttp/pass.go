package weirhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/exchange"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/limit"
)

var _ exchange.Sink = (*passage)(nil)

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
	permit, err := c.admit(ctx, limiter)
	if err != nil {
		c.fail(err)
		return
	}
	p := &passage{ResponseWriter: w, h: h, r: r, c: c, permit: permit, ctx: ctx}
	defer func() { p.permit.Release(limit.Ignored) }()
	h.count.calls.Add(1)
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	p.leg = leg{h: h, key: key, apart: c.endless, queued: c.receipt.Queued, info: CallInfo{Request: r}}
	r = p.leg.begin(r.WithContext(ctx))
	p.final = coalesce.ErrGoexit // of which the handler does not come back
	defer func() { p.leg.end(p.final) }()
	wait, late := h.o.HeadTimeout, errNoHead
	if limiter == h.o.Streams {
		wait, late = h.o.IdleTimeout, errIdle
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
	if h.o.IdleTimeout > 0 {
		p.idle = time.AfterFunc(forever, func() { cancel(errIdle) }) // from the head on
		defer p.idle.Stop()
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = upload{r.Body, p}
	}
	err = h.protect(p, r)
	p.permit.Release(outcome(p.status, err))
	p.end(err)
}

// A passage is the ResponseWriter of a request that is passed on.
type passage struct {
	http.ResponseWriter
	h      *Handler
	r      *http.Request
	c      *call
	ctx    context.Context
	permit limit.Permit
	timer  *time.Timer // bounds the time to the head, nil without
	wait   time.Duration
	idle   *time.Timer // bounds the time without progress after it, nil without
	status int         // of the final answer
	err    error       // of Fail
	lost   bool        // the client does not take the answer
	leg    leg
	final  error       // with which the answer has ended
	headed atomic.Bool // the head has been written
	// answered: so has it, or the connection was taken over.
	answered atomic.Bool
}

// moved notes that there was progress in a body.
func (p *passage) moved() {
	switch {
	case p.idle != nil && p.headed.Load():
		p.idle.Reset(p.h.o.IdleTimeout)
	case p.timer != nil && !p.answered.Load():
		p.timer.Reset(p.wait) // who is still sending cannot have an answer yet
	}
}

// An upload is the body of a request. To read it is progress too, and may be
// done on another goroutine than the one that writes the answer.
type upload struct {
	io.ReadCloser
	p *passage
}

func (u upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	u.p.moved()
	return n, err
}

// Unwrap is for http.ResponseController.
func (p *passage) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader writes the head. An answer that is no error, to a request that
// may have changed something, invalidates before the client can know of it.
func (p *passage) WriteHeader(status int) {
	if p.status != 0 || p.err != nil {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.status = status
	p.answered.Store(true)
	p.leg.head(status)
	p.c.receipt.UpstreamStatus = status
	if p.timer != nil {
		p.timer.Stop()
	}
	if status != http.StatusSwitchingProtocols {
		p.headed.Store(true)
		p.moved()
	}
	scheme, own := p.h.scheme(p.r), *p.r
	own.RequestURI = target(p.r) // as it is in the key
	for _, t := range rfc9111.Invalidates(&own, scheme, status, p.Header()) {
		p.h.cache.Purge(scheme, p.r.Host, t, false)
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
}

// Write writes a piece of the body.
func (p *passage) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	if p.idle != nil {
		p.idle.Stop() // the time that the client takes
		defer p.moved()
	}
	n, err := p.ResponseWriter.Write(b)
	p.lost = p.lost || isLost(err)
	return n, err
}

// Hijack is [http.Hijacker]. What is said on the connection is not looked at.
func (p *passage) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err == nil && p.status == 0 {
		p.status = http.StatusSwitchingProtocols
		p.answered.Store(true)
		p.leg.head(p.status)
		p.c.endless = true
		if p.timer != nil {
			p.timer.Stop()
		}
		p.c.report(OutcomePass)
	}
	return conn, rw, err
}

// FlushError is for http.ResponseController.
func (p *passage) FlushError() error {
	if p.err != nil {
		return p.err
	}
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Flush is [http.Flusher].
func (p *passage) Flush() { _ = p.FlushError() }

// Fail is of [exchange.Sink].
func (p *passage) Fail(err error) {
	if p.status == 0 && p.err == nil {
		p.err = err
	}
}

// CloseDelimited is of [exchange.Sink]. Nothing of it is stored anyway.
func (p *passage) CloseDelimited() {}

// whole reports whether what was written is all of the answer, or net/http sees
// for itself that it is not.
func (p *passage) whole() bool {
	switch p.status {
	case 0:
		return false
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return true
	}
	return p.r.Method == http.MethodHead || p.Header().Get("Content-Length") != ""
}

// end is called when the handler has returned, with what it panicked with.
func (p *passage) end(err error) {
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
		p.c.cutOff(p.status, p.lost)
		p.c.broken(err)
	}
}

// stream exchanges the permit of a call whose answer turned out to go on
// without an end for one of Streams, if there is one to be had.
func (h *Handler) stream(ctx context.Context, held limit.Permit) limit.Permit {
	p, err := h.o.Streams.Acquire(ctx)
	if err != nil {
		return held
	}
	held.Release(limit.Ignored)
	return p
}
