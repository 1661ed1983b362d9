package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync/atomic"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// identity, as the Transfer-Encoding of a Request, makes net/http write a body of
// unknown length without encoding. So an empty body is not written as a chunked
// one.
var identity = []string{"identity"}

// An attempt is one attempt at sending a request.
type attempt struct {
	t       *Transport
	req     *http.Request
	body    *onceBody // nil if there is none
	relay   *relay    // nil if no Forwarder made the request
	trace   httptrace.ClientTrace
	conn    *conn // written before the request is, read by hooks that follow
	reused  bool
	start   int64       // bytes written to conn before
	written atomic.Bool // the head was written, on HTTP/2
	// interim counts the 1xx responses, and interimBytes the bytes of their fields. Only the
	// goroutine that reads the response uses them.
	interim      int
	interimBytes int64
	endless      error // net/http does not return it from HTTP/2
	// on is conn, for the reader of the body. client is set if the body broke
	// while the connection was fine. Both are atomic because the transport reads
	// the body at any time.
	on     atomic.Pointer[conn]
	client atomic.Bool
}

// newAttempt prepares an attempt at sending r with body, over HTTP/2 if two is set.
func newAttempt(t *Transport, r *http.Request, body io.ReadCloser, two bool) *attempt {
	a := &attempt{t: t}
	a.relay, _ = r.Context().Value(relayKey{}).(*relay)
	if two {
		a.trace.WroteHeaders = func() { a.written.Store(true) }
	} else {
		a.trace.GotConn = a.gotConn
		a.trace.PutIdleConn = a.putIdleConn
	}
	a.trace.Got1xxResponse = a.got1xx
	a.req = r.WithContext(httptrace.WithClientTrace(r.Context(), &a.trace))
	u := new(url.URL)
	*u = *r.URL
	u.Scheme, u.Host = t.scheme, t.host
	a.req.URL = u
	a.req.Body, a.req.GetBody = nil, nil
	if body != nil {
		a.body = &onceBody{a: a, src: body}
		a.req.Body = a.body
		if !two && t.o.MaxConnAge > 0 {
			a.req.Header = maps.Clone(r.Header) // gotConn may add to it
		}
	}
	return a
}

var closeConn = []string{"close"}

// newDirectAttempt returns an attempt for a direct. It leaves r unchanged: the
// connection determines the server.
func newDirectAttempt(t *Transport, r *http.Request) *attempt {
	a := &attempt{t: t, req: r}
	a.relay, _ = r.Context().Value(relayKey{}).(*relay)
	return a
}

// took records the HTTP/1 connection that the request will be written to.
func (a *attempt) took(c *conn, reused bool) {
	a.conn, a.reused = c, reused
	a.on.Store(c)
	a.start = c.take(a, a.req.Method)
}

// gotConn receives the HTTP/1 connection that the request will be written to.
//
// If that connection breaks, net/http would resend a request without a body.
// It checks that there is no body, so gotConn adds one that is empty and leaves
// no trace on the wire. This cannot be done earlier, because on HTTP/2 it would
// leave a trace.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := unwrapConn(info.Conn)
	if c == nil {
		return
	}
	a.took(c, info.Reused)
	if _, upgrade := a.req.Header["Upgrade"]; !upgrade && c.old() {
		a.req.Close = true // net/http could use it again before it can be closed
		if a.body != nil {
			// net/http has copied the Request by now, since it has a body, but not this map.
			a.req.Header["Connection"] = closeConn
		}
	}
	if a.req.Body != nil {
		return
	}
	switch a.req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		a.req.Body, a.req.TransferEncoding = emptyBody{}, identity
	default:
		a.hideKeys()
	}
}

// hideKeys writes the names of Idempotency-Key in lower case, where net/http does
// not find them. It would take them as permission to resend a POST.
func (a *attempt) hideKeys() {
	for name, hidden := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if v, ok := a.req.Header[name]; ok {
			a.req.Header = a.req.Header.Clone()
			delete(a.req.Header, name)
			a.req.Header[hidden] = v
		}
	}
}

func (a *attempt) putIdleConn(err error) {
	if err == nil && a.conn != nil && !a.conn.streams {
		a.conn.put(a)
	}
}

// maxInterim bounds the 1xx responses to one request. A server that reports its progress with
// a 102 every 20 s, as RFC 2518 advises, reaches it after five hours. All of them together have
// Options.MaxHeader bytes of fields at most.
const maxInterim = 1000

// got1xx relays a 1xx response. Endless ones end the request.
func (a *attempt) got1xx(code int, header textproto.MIMEHeader) error {
	a.interim++
	for name, values := range header {
		for _, v := range values {
			a.interimBytes += int64(len(name) + len(v))
		}
	}
	if a.interim > maxInterim || a.interimBytes > a.t.o.MaxHeader {
		a.endless = &fault.UpstreamError{Err: &ProtocolError{fmt.Sprintf("more than %d interim (1xx) responses, or %d bytes of them, and no final one", maxInterim, a.t.o.MaxHeader)}}
		return a.endless
	}
	if a.relay != nil {
		a.relay.inform(code, http.Header(header))
	}
	return nil
}

// answered processes the head of the response. net/http does not detect TLS under
// a framed connection.
func (a *attempt) answered(resp *http.Response) {
	if a.conn != nil {
		resp.TLS = a.conn.tls
		if a.conn.lost.Load() {
			resp.ContentLength = -1 // see untidy
		}
	}
	if c := a.conn; c != nil && !c.streams {
		if d, ok := keepAlive(resp.Header["Keep-Alive"]); ok {
			c.setKeep(a, d)
		}
	}
}

// blamed returns err as a *fault.UpstreamError if the server is at fault: the
// connection failed on the server's side, or the reply was not a valid response.
// Errors of the client's body, of weir itself, or of ctx are returned unchanged.
func (a *attempt) blamed(ctx context.Context, err error) error {
	c := a.conn
	if c == nil || ctx.Err() != nil || a.client.Load() || errors.Is(err, errSurplus) {
		return err
	}
	if c.down.Load() || c.streams && a.written.Load() || c.answering(a) {
		return &fault.UpstreamError{Err: err}
	}
	return err
}

// unsent reports whether, on HTTP/1, nothing of the request was sent and its body
// is untouched.
func (a *attempt) unsent() bool {
	if a.conn == nil || a.conn.streams || a.conn.wrote.Load() != a.start {
		return false
	}
	return a.body == nil || !a.body.begun.Load()
}

// again decides whether a request over HTTP/2 that has failed with err is sent again: if
// the server has not run it, whatever its method. It returns the body to send, or the
// error to report. n is how often the request was sent again before.
func (a *attempt) again(r *http.Request, body io.ReadCloser, n int, err error) (io.ReadCloser, error) {
	refused, ok := notRun(err)
	if !ok || a.client.Load() {
		return nil, a.blamed(r.Context(), a.mismatched(err))
	}
	if n == maxResends {
		return nil, &fault.UpstreamError{Err: err}
	}
	if refused {
		if cause := pauseBefore(r.Context(), n); cause != nil {
			return nil, cause
		}
	} else if cause := context.Cause(r.Context()); cause != nil {
		return nil, cause
	}
	if a.body == nil || !a.body.begun.Load() {
		return body, nil
	}
	if r.GetBody == nil {
		return nil, &fault.NotRunError{Err: err}
	}
	return r.GetBody()
}

// end closes the body, as the caller of RoundTrip expects.
func (a *attempt) end() {
	if a.body != nil {
		a.body.src.Close()
	}
}

// unwrapConn returns the conn below c.
func unwrapConn(c net.Conn) *conn {
	if f, ok := c.(*framed); ok {
		return f.c
	}
	if tc, ok := c.(*tls.Conn); ok {
		c = tc.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// An emptyBody is empty, and is not nil.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo implements [io.WriterTo]. Without it, net/http allocates a buffer of 32
// KiB per request, to copy nothing.
func (emptyBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

func (emptyBody) Close() error { return nil }

// broken is called when the connection is closed. It ends the wait for a body
// that is no longer needed: net/http reports a lost connection only after the
// read of the body has returned.
func (a *attempt) broken() {
	if a.body == nil {
		return
	}
	a.body.dead.Store(true)
	if a.body.reading.Load() && a.relay != nil {
		a.relay.interrupt()
	}
}

// A onceBody is the body of one attempt. If nothing was read from it, Close
// leaves the body open for the next attempt.
//
// Read sets reading before it checks dead, and broken sets dead before it checks
// reading, so at least one of them sees the other. They are atomic because broken
// cannot wait for a Read.
type onceBody struct {
	a                    *attempt
	src                  io.ReadCloser
	begun, reading, dead atomic.Bool
	closed               atomic.Bool // by the transport; atomic because a Read can be in progress
}

var errConnLost = errors.New("forward: the connection to the server was lost")

func (b *onceBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	if b.dead.Load() {
		return 0, errConnLost
	}
	b.begun.Store(true)
	n, err := b.src.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() { // a Close ends a Read
		if c := b.a.on.Load(); c == nil || !c.down.Load() {
			b.a.client.Store(true)
		}
	}
	return n, err
}

func (b *onceBody) Close() error {
	b.closed.Store(true)
	if !b.begun.Load() {
		return nil
	}
	return b.src.Close()
}
