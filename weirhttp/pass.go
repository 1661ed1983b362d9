package weirhttp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp/stop"
)

var _ Sink = (*passthroughWriter)(nil)

// pass forwards r, which bypasses the cache, to the next handler under the limits.
// Upgrades and event streams are counted separately from calls, because they can last
// long (H14). why is the reason, if it is in the request; detail is for the Receipt.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, q rfc9111.Request, came time.Time, turn uint64, why bypass, detail string) {
	c := &call{h: h, w: w, r: r, q: q, bypass: why, endless: q.Upgrade || q.Streams}
	c.identify()
	_, joined := w.(*recorder) // the call belongs to no client
	if !joined {
		c.hurry(came)
		defer c.time.end()
	}
	r = c.r
	p := &passthroughWriter{ResponseWriter: w, h: h, r: r, c: c, length: -1, ticket: ticket{h: h}}
	p.call.Start(r.Context())
	defer p.call.Cancel(nil)
	c.receipt.Detail = detail
	defer c.over(came)
	key := h.hot.keyOf(r, c.endless)
	h.hot.asked(key, came, turn)
	if h.o.Priority != nil {
		c.demand.Priority = h.o.Priority(h.sent(r))
	} else {
		c.demand.Priority = limit.PriorityOf(r.Context())
	}
	p.ctx = &p.call
	defer p.ticket.close()
	limiter := h.o.Limiter
	if c.endless {
		limiter = h.o.Streams
		p.ticket.streams()
	}
	if c.time.over() {
		c.outOfTime(ErrOutOfTime)
		return
	}
	p.ticket.clients.Start(p.terms(), &p.ticket.alarm, h.cutter(w, p.call.Cancel))
	if p.ahead() {
		defer p.mem.giveBack()
		var err error
		if r, err = p.readAhead(p.ctx, r); err != nil {
			c.fail(err)
			return
		}
		c.onward = r
	}
	until, _ := p.ctx.Deadline()
	if !c.endless && h.hopeless(until) { // the heads of streams are not measured
		c.fail(errNoChance)
		return
	}
	ctx, err := c.admit(p.ctx, &p.ticket, r, limiter)
	if err == nil && !c.endless && h.hopeless(until) {
		err = errNoChance
	}
	if err != nil {
		c.fail(err)
		return
	}
	p.ctx = ctx
	if err := claimOnce(ctx, w); err != nil {
		c.fail(err)
		return
	}
	h.count.calls.Add(1)
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	p.trace = callTrace{h: h, key: key, apart: c.endless, queued: c.receipt.Queued, info: CallInfo{Request: r}}
	r = p.trace.begin(r.WithContext(h.mayFall(ctx, true)))
	p.post = h.newPost(w, r, q)
	defer p.post.drop()
	if p.post != nil && h.changesFields() {
		r = r.WithContext(r.Context()) // a copy
		r.Header = r.Header.Clone()
	}
	r = p.tell(r, joined)
	p.final = coalesce.ErrGoexit // in which case protect does not return
	defer func() { p.trace.end(p.final) }()
	p.wait, p.late = h.headLeft(r.Context()), errNoHead
	if c.endless {
		p.wait, p.late = h.o.StreamIdleTimeout, errIdle
	}
	if p.wait > 0 {
		p.ticket.alarm.Start(alarm.Head, p, p.wait)
		defer p.ticket.alarm.Clear(alarm.Head)
	}
	p.still.Store(int64(h.idleTimeout(c.endless)))
	if p.paced = h.o.IdleTimeout > 0 || h.o.StreamIdleTimeout > 0; p.paced { // from the headers on
		defer p.ticket.alarm.Clear(alarm.Idle)
	}
	if p.uploads(r) {
		r.Body = upload{r.Body, p}
	}
	err = h.protect(p, r)
	if err == nil && !p.whole() {
		err = p.ticket.clients.Err() // which the handler has swallowed
	}
	err = cmp.Or(err, p.err)
	p.ticket.settle(ctx, p.status, err, p.trace.start)
	p.end(err)
}

// tell returns r with what its server receives about the time. joined: others may wait for
// the call.
func (p *passthroughWriter) tell(r *http.Request, joined bool) *http.Request {
	var until time.Time
	if !joined {
		until, _ = r.Context().Deadline()
	}
	bound := p.h.headTimeout(p.c.endless)
	if left := p.h.headLeft(r.Context()); left > 0 {
		bound = min(bound, left)
	}
	if p.uploads(r) && r.ContentLength != 0 {
		bound = 0 // it begins anew while the body moves
	}
	told := p.h.callTime(r, until, bound)
	if p.ticket.own = told.own; told.own {
		p.post.drop()
		p.post = nil
	}
	return p.h.timed(r, told, joined || p.post != nil)
}

// A passthroughWriter is the ResponseWriter of a request that bypasses the cache.
type passthroughWriter struct {
	http.ResponseWriter
	h      *Handler
	r      *http.Request
	c      *call
	call   stop.Context    // canceled if something takes too long
	ctx    context.Context // call, and what is known after the admission
	ticket ticket
	wait   time.Duration // bounds the time until the headers, 0 or less without a bound
	late   error         // the cause if they are late
	paced  bool          // the time without progress after that is bounded
	still  atomic.Int64  // that bound, as a Duration: only the headers show whether a response is a stream
	status int           // of the final response
	err    error         // of Fail
	lost   bool          // the client no longer takes the response
	trace  callTrace
	mem    memory      // of the body that was read ahead
	length int64       // of the response body, as declared; -1 if unknown
	wrote  int64       // bytes of the body written
	final  error       // the error that ended the response
	post   *post       // nil if the response cannot be stored
	headed atomic.Bool // the headers have been written
	// answered: the headers have been written, or the connection was taken over.
	answered atomic.Bool
}

// Due implements [alarm.Target]: it ends the call.
func (p *passthroughWriter) Due(which alarm.Slot) {
	switch {
	case which == alarm.Idle:
		p.call.Cancel(errIdle)
	case !p.answered.Load(): // an upload may have moved it in the meantime
		p.call.Cancel(p.late)
	}
}

// moved records progress in a body.
func (p *passthroughWriter) moved() {
	switch {
	case p.paced && p.headed.Load():
		if d := time.Duration(p.still.Load()); d > 0 {
			p.ticket.alarm.Start(alarm.Idle, p, d)
		}
	case p.wait > 0 && !p.answered.Load():
		p.ticket.alarm.Start(alarm.Head, p, p.wait) // a client that is still sending cannot have a response yet
	}
}

// An upload is the body of a request. Reading it is progress as well, and may happen
// on a different goroutine than the one that writes the response.
type upload struct {
	io.ReadCloser
	p *passthroughWriter
}

func (u upload) Read(b []byte) (int, error) {
	u.p.ticket.clients.Begin(slow.Up, 0)
	n, err := u.ReadCloser.Read(b)
	u.p.ticket.clients.End(slow.Up, n)
	u.p.moved()
	return n, err
}

// uploads reports whether the body of r is still read from the client.
func (p *passthroughWriter) uploads(r *http.Request) bool {
	switch r.Body.(type) {
	case nil, *readBody, begunBody:
		return false
	}
	return r.Body != http.NoBody
}

// terms returns the rate that p's client has to keep up. Whether the response is a
// stream is known only with its headers.
func (p *passthroughWriter) terms() slow.Terms {
	if p.c.q.Upgrade || isGRPC(p.r.Header) {
		return slow.Terms{}
	}
	return p.h.o.Clients.terms()
}

// Unwrap is for http.ResponseController.
func (p *passthroughWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader writes the headers. A response without an error, to a request that may
// have changed something, invalidates before the client can know of it.
func (p *passthroughWriter) WriteHeader(status int) {
	if p.status != 0 || p.err != nil {
		return
	}
	if status == http.StatusSwitchingProtocols && !p.c.q.Upgrade {
		p.err = errUnasked(status)
		return
	}
	if err := p.ticket.clients.Err(); err != nil {
		p.err = err // the handler's response is only a consequence of it
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	if !p.c.time.begins() {
		p.err = ErrOutOfTime
		return
	}
	p.status = status
	p.answered.Store(true)
	p.trace.head(status)
	p.ticket.charge.head(status, p.Header())
	p.c.receipt.UpstreamStatus = status
	p.ticket.alarm.Clear(alarm.Head)
	if isStream(p.Header()) {
		p.still.Store(int64(p.h.idleTimeout(true)))
	}
	if status != http.StatusSwitchingProtocols {
		p.headed.Store(true)
		p.moved()
	}
	if !p.c.q.Read {
		p.invalidate(status)
	}
	if isStream(p.Header()) {
		p.c.endless = true
		p.ticket.endless(p.ctx, false)
	}
	if status == http.StatusSwitchingProtocols {
		p.c.report(OutcomePass)
		p.ResponseWriter.WriteHeader(status)
		return
	}
	if n, err := strconv.ParseInt(p.Header().Get("Content-Length"), 10, 64); err == nil {
		p.length = n
	}
	p.post.head(p.c, status, p.Header(), p.length)
	p.c.writeHead(OutcomePass, status)
	p.written(0)
}

// invalidate invalidates what the response, with this status, to a request that may
// have changed something makes out of date.
func (p *passthroughWriter) invalidate(status int) {
	scheme, own := p.h.scheme(p.r), *p.r
	own.RequestURI = target(p.r) // as in the key
	for _, t := range rfc9111.Invalidates(&own, scheme, status, p.Header()) {
		for _, t := range p.h.storedTargets(p.r.Host, t) {
			if p.post.invalidates(t) {
				continue
			}
			_, _ = p.h.cache.Invalidate(context.Background(), scheme, p.r.Host, t) // an error is counted, and the purge is sent again
		}
	}
}

// written is called before n bytes of the body are written. After the last ones, the
// origin has done its part. Only a forwarder is known to do nothing after the body.
func (p *passthroughWriter) written(n int) {
	p.wrote += int64(n)
	none := p.r.Method == http.MethodHead || p.status == http.StatusNoContent || p.status == http.StatusNotModified
	if p.h.o.Gateway && (p.wrote == p.length || none) {
		p.ticket.handOver(p.status)
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
	if p.paced {
		p.ticket.alarm.Clear(alarm.Idle) // the client's time does not count
		defer p.moved()
	}
	p.ticket.charge.data(b)
	p.written(len(b))
	p.post.data(p.ctx, b)
	p.ticket.clients.Begin(slow.Down, len(b))
	n, err := p.ResponseWriter.Write(b)
	p.ticket.clients.End(slow.Down, n)
	p.lost = p.lost || isLost(err)
	return n, err
}

// Hijack implements [http.Hijacker]. The traffic on the connection is not inspected.
func (p *passthroughWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err == nil && p.status == 0 {
		p.status = http.StatusSwitchingProtocols
		p.ticket.clients.Close()
		p.answered.Store(true)
		p.trace.head(p.status)
		p.c.endless = true
		p.ticket.alarm.Clear(alarm.Head)
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
	p.ticket.clients.Begin(slow.Down, 0)
	defer p.ticket.clients.End(slow.Down, 0)
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (p *passthroughWriter) Flush() { _ = p.FlushError() }

// Fail implements [Sink].
func (p *passthroughWriter) Fail(err error) {
	if p.status == 0 && p.err == nil {
		p.err = err
		p.ticket.fails(err)
	}
}

// CloseDelimited implements [Sink].
func (p *passthroughWriter) CloseDelimited() {
	p.post.drop()
	if rec, ok := p.ResponseWriter.(*recorder); ok {
		rec.fin = true
	}
}

// whole reports whether the complete response was written, or net/http itself would
// detect that it was not.
func (p *passthroughWriter) whole() bool {
	switch p.status {
	case 0:
		return false
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return true
	}
	return p.r.Method == http.MethodHead || p.Header().Get("Content-Length") != ""
}

// end is called when the handler has returned, with the error of protect.
func (p *passthroughWriter) end(err error) {
	if p.ctx.Err() != nil && (err != nil || !p.whole()) && !ofRequest(err) {
		err = context.Cause(p.ctx) // the handler may just have given up and returned
	}
	p.final = err
	switch {
	case err == nil:
		p.WriteHeader(http.StatusOK) // if it was not called
		p.post.store(p.c)
	case p.status == 0:
		p.c.noAnswer(err)
		p.c.fail(err)
	default:
		p.c.cutOff(p.status, p.lost || errors.Is(err, ErrSlowClient))
		p.c.broken(err)
	}
}
