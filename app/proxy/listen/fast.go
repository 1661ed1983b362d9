package listen

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/weirhttp/stop"
)

// A fastConn serves requests in between those that net/http reads. While net/http waits
// for the next request, complete plain requests (see readPlain) are served here, on the
// same goroutine, and net/http gets to see only the request after them. All other requests
// are left to net/http (decisions 0060 and 0061).
//
// The order of responses is kept because net/http has at most one request at a time. No
// byte behind that request is passed on before net/http reports the connection as idle,
// which it does after flushing the response. While a handler runs, net/http reads one
// byte to detect the end of the connection. If a request has arrived early, net/http
// gets one byte of it, and then has to handle all of it.
type fastConn struct {
	server *Server
	ctx    context.Context // ends with the connection
	end    func()          // called when the connection is closed; ends ctx
	values context.Context // the values of ctx, without its end; see cancelAll
	// request is the context of the request that is served here, or nil. It is atomic because
	// the Server's mutex is held when it is canceled.
	request atomic.Pointer[stop.Context]
	header  http.Header // of the latest response; see takeHeader

	// Used by the reader, one at a time, and by net/http's goroutine between reads.
	phase   phase
	held    []byte    // received, but behind the request that net/http has
	renewed time.Time // when the idle time-out was last set here; zero if it has to be set

	mu      sync.Mutex
	serving bool // guarded by mu; a request is being served here
	closing bool // guarded by mu; Close was called meanwhile
	timed   bool // guarded by mu; the handler has set a write deadline
	lookout lookout
}

// A phase is what net/http is doing.
type phase uint8

const (
	// first: it has not had a request yet. Its time-outs for the first request start
	// with the connection, so the first request is always left to net/http.
	first phase = iota
	busy        // it has a request, or a part of one
	idle        // it waits for a request
)

// awaits records that net/http has flushed its response and will read the next request.
func (c *framedConn) awaits() {
	c.responded.Store(false)
	c.handled.Store(false)
	if c.fast != nil {
		c.fast.phase = idle
	}
}

// receive reads the bytes that were held back, if any, and otherwise from the
// connection.
func (c *framedConn) receive(p []byte) (int, error) {
	f := c.fast
	if f == nil || c.free.Load() && len(f.held) == 0 {
		return c.Conn.Read(p)
	}
	if f.phase == busy && c.scan.Between() && len(p) > 1 {
		p = p[:1] // net/http checks for the end of the connection
	}
	if len(f.held) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, f.held)
	if f.held = f.held[n:]; len(f.held) == 0 {
		f.held = nil
	}
	return n, nil
}

// hold keeps back the bytes behind the message that has ended. They come before the
// bytes that are already held.
func (f *fastConn) hold(rest []byte) {
	if len(rest) > 0 {
		f.held = append(bytes.Clone(rest), f.held...)
	}
}

// serveAll serves the plain requests at the start of p[:n], moves the remaining bytes to
// the start of p, and returns their number. An error means that the connection cannot be
// used any more. It is io.EOF, because net/http writes some errors to the client.
func (c *framedConn) serveAll(p []byte, n int) (int, error) {
	for n > 0 {
		size, ok := c.serve(p[:n])
		if size == 0 {
			return n, nil
		}
		if !ok || c.renew() != nil {
			return 0, io.EOF
		}
		n = copy(p, p[size:n])
	}
	return 0, nil
}

// serve serves the request at the start of p, and returns its size. The size is 0 if the
// request is left to net/http. ok is false if the connection has to be closed.
func (c *framedConn) serve(p []byte) (size int, ok bool) {
	s := c.fast.server
	if s.retired.Load() { // net/http asks the client to disconnect
		return 0, true
	}
	plain, ok := readPlain(p, s.http.MaxHeaderBytes)
	if !ok {
		return 0, true
	}
	own := new(fastRequest)
	own.ctx.Start(c.fast.values)
	alone := plain.size == len(p) && len(c.fast.held) == 0
	if !c.begin(&own.ctx, alone) {
		own.ctx.Cancel(nil)
		return 0, true
	}
	if s.options.Fast != nil {
		s.options.Fast.Add(1)
	}
	r, w := plain.request(own), &own.writer
	r.RemoteAddr, r.TLS = c.remote(), c.state
	*w = fastWriter{conn: c, ctx: &own.ctx, header: c.fast.takeHeader(), head: r.Method == http.MethodHead, length: -1}
	returned := false
	defer func() { // also if the handler panics: net/http logs that, and ends the connection
		own.ctx.Cancel(nil)
		if !returned {
			w.abort()
		}
		if c.over() {
			ok = false
		}
	}()
	s.options.Handler.ServeHTTP(w, r)
	returned = true
	own.ctx.Cancel(nil)
	ok = w.finish()
	c.fast.keepHeader(w.header)
	return plain.size, ok
}

// A fastRequest is one object for all of a request that has a fixed size. It is not used
// again: a flight, a refresh or an Observer may keep the request and its context, and a
// handler the ResponseWriter.
type fastRequest struct {
	ctx    stop.Context
	http   http.Request
	url    url.URL
	writer fastWriter
}

// takeHeader returns an empty map for the fields of a response: the one of the previous response,
// if there is one. Nothing but the fastWriter has it once a handler has returned, and the
// fastWriter shows it to no one after that. A handler that keeps the map that it got from
// Header would be a fault, which the build tag overwrite makes visible.
func (f *fastConn) takeHeader() http.Header {
	h := f.header
	if f.header = nil; h == nil {
		return make(http.Header, usual)
	}
	return h
}

// keepHeader keeps h for the next response. One that is large is left to the collector.
func (f *fastConn) keepHeader(h http.Header) {
	if overwritesHeaders {
		for name := range h {
			h[name] = []string{"overwritten: the handler has returned"}
		}
		return
	}
	if len(h) <= 2*usual {
		clear(h)
		f.header = h
	}
}

// renew sets the idle time-out again. Setting the deadline each time would cost as much
// as a small response.
func (c *framedConn) renew() error {
	f := c.fast
	timeout := f.server.http.IdleTimeout
	if timeout <= 0 {
		if f.renewed.IsZero() {
			f.renewed = time.Unix(1, 0)
			return c.Conn.SetReadDeadline(time.Time{})
		}
		return nil
	}
	if now := time.Now(); now.Sub(f.renewed) > timeout/16 {
		f.renewed = now
		return c.Conn.SetReadDeadline(now.Add(timeout))
	}
	return nil
}

// begin records that a request is being served, with that context. alone
// means that no byte of the next request has arrived. begin returns false if the
// connection is closed.
func (c *framedConn) begin(ctx *stop.Context, alone bool) bool {
	f := c.fast
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.serving = true
	f.request.Store(ctx)
	if f.ctx.Err() != nil { // it may have ended before it could end ctx
		ctx.Cancel(nil)
	}
	if alone {
		c.lookLocked(ctx)
	}
	f.server.aside.Add(1)
	return true
}

// over ends what begin has begun. It reports whether Close was called meanwhile; if so,
// over closes the connection.
func (c *framedConn) over() (closed bool) {
	f := c.fast
	f.request.Store(nil)
	f.mu.Lock()
	f.serving = false
	closed = f.closing
	timed := f.timed
	f.timed = false
	looked := f.lookout.leaveLocked()
	f.mu.Unlock()
	if looked {
		f.renewed = time.Time{}
		f.held = append(f.held, c.recall()...)
	}
	if timed && c.Conn.SetWriteDeadline(time.Time{}) != nil {
		closed = true
	}
	if closed {
		f.server.forget(c)
		c.cancelAll()
		_ = c.Conn.Close() // the client has its response
	}
	f.server.aside.Add(-1)
	f.server.asideEnded()
	return closed
}

// defers reports whether Close has to wait for a request that is being served. When a
// server shuts down, net/http closes idle connections, and considers this one idle.
func (c *framedConn) defers() bool {
	f := c.fast
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	return !f.server.cut.Load() && f.serving && f.server.remember(c)
}

// setWriteDeadline is SetWriteDeadline for the handler of the request that is being
// served, whose context is ctx. Its deadline ends with the response.
func (c *framedConn) setWriteDeadline(ctx *stop.Context, t time.Time) error {
	f := c.fast
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.servesLocked(ctx) {
		return errOver
	}
	f.timed = true
	return c.Conn.SetWriteDeadline(t)
}

// servesLocked reports whether the request with that context is being served. A timer of an
// earlier one may be late: a deadline that it sets would end a response that may be for another
// user. f.mu must be held.
func (f *fastConn) servesLocked(ctx *stop.Context) bool {
	return f.serving && f.request.Load() == ctx
}

// remote returns the client's address as text.
func (c *framedConn) remote() string {
	if c.address == "" {
		c.address = c.RemoteAddr().String()
	}
	return c.address
}

// bind sets the context of c's requests, as net/http does.
func (c *framedConn) bind(ctx context.Context) {
	if f := c.fast; f != nil {
		own, end := context.WithCancel(context.WithValue(ctx, http.LocalAddrContextKey, c.LocalAddr()))
		f.ctx, f.values = own, stop.Detach(own)
		unhook := context.AfterFunc(own, f.cancelRequest) // if it ends with the context of the Server
		f.end = func() {
			unhook() // cancelAll cancels the request itself, without a goroutine
			end()
		}
	}
}

// cancelAll ends the context of c's requests. A request's context is not derived from the
// connection's, where it would have to be registered.
func (c *framedConn) cancelAll() {
	if c.fast != nil && c.fast.end != nil {
		c.fast.end()
		c.fast.cancelRequest()
	}
}

// cancelRequest cancels the request that is served here, if there is one.
func (f *fastConn) cancelRequest() {
	if r := f.request.Load(); r != nil {
		r.Cancel(nil)
	}
}

var _ net.Conn = (*framedConn)(nil)
