package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync/atomic"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// errNotAgain ends an HTTP/2 request that net/http was about to send again.
var errNotAgain = errors.New("forward: the connection ended the request, which is not sent again")

// identity as a Request's Transfer-Encoding has net/http write a body of unknown
// length as it is. An empty one is then not a chunked one.
var identity = []string{"identity"}

// An attempt is one try to send a request.
type attempt struct {
	t       *Transport
	req     *http.Request
	body    *onceBody // nil if there is none
	relay   *relay    // nil if no Forwarder made the request
	cancel  context.CancelCauseFunc
	trace   httptrace.ClientTrace
	conn    *conn // written before the request is, read by hooks that follow
	reused  bool
	start   int64       // what was written to conn before
	written atomic.Bool // the head was written, on HTTP/2
	// on is conn, for who reads the body; client is set when that broke while the
	// connection was fine. Atomic: the transport reads the body when it likes.
	on     atomic.Pointer[conn]
	client atomic.Bool
}

// newAttempt prepares a try to send r with body.
func newAttempt(t *Transport, r *http.Request, body io.ReadCloser) *attempt {
	a := &attempt{t: t}
	a.relay, _ = r.Context().Value(relayKey{}).(*relay)
	a.trace.GotConn = a.gotConn
	a.trace.PutIdleConn = a.putIdleConn
	if a.relay != nil {
		a.trace.Got1xxResponse = a.got1xx
	}
	ctx := r.Context()
	if t.main.Protocols.HTTP2() || t.main.Protocols.UnencryptedHTTP2() {
		// Canceled on failure only: after an answer the context ends with r's.
		a.trace.WroteHeaders = func() { a.written.Store(true) }
		ctx, a.cancel = context.WithCancelCause(ctx)
	}
	a.req = r.WithContext(httptrace.WithClientTrace(ctx, &a.trace))
	u := new(url.URL)
	*u = *r.URL
	u.Scheme, u.Host = t.scheme, t.host
	a.req.URL = u
	a.req.Body, a.req.GetBody = nil, nil
	if body != nil {
		a.body = &onceBody{a: a, src: body}
		a.req.Body = a.body
	}
	return a
}

// newDirectAttempt returns an attempt for a direct, which changes nothing of r: the
// server is who it has a connection to.
func newDirectAttempt(t *Transport, r *http.Request) *attempt {
	a := &attempt{t: t, req: r}
	a.relay, _ = r.Context().Value(relayKey{}).(*relay)
	return a
}

// took gets the connection of HTTP/1 that the request will be written to.
func (a *attempt) took(c *conn, reused bool) {
	a.conn, a.reused = c, reused
	a.on.Store(c)
	a.start = c.take(a, a.req.Method)
}

// gotConn gets the connection that the request will be written to.
//
// net/http would send a request without a body again if a connection of HTTP/1
// breaks. It checks that there is no body, so there is one from here on, an
// empty one that leaves no mark on the wire. It is done here and no sooner
// because on HTTP/2 it would leave one.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := unwrapConn(info.Conn)
	if c == nil {
		return
	}
	if c.streams {
		// A second connection for a request that was written to a first. The
		// server may have reset it as a fault after having worked on it
		// (golang.org/issue/47635). A stream that was refused stays on its
		// connection, and is sent again.
		if a.written.Load() && a.conn != c && a.cancel != nil {
			a.cancel(errNotAgain)
		}
		a.conn = c
		a.on.Store(c)
		return
	}
	a.took(c, info.Reused)
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

// hideKeys writes the names of Idempotency-Key in lower case, which is how
// net/http does not find them: it takes them as leave to send a POST again.
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

func (a *attempt) got1xx(code int, header textproto.MIMEHeader) error {
	a.relay.inform(code, http.Header(header))
	return nil
}

// answered looks at the head of the answer. net/http does not find TLS under a
// framed connection.
func (a *attempt) answered(resp *http.Response) {
	if a.conn != nil {
		resp.TLS = a.conn.tls
	}
	if c := a.conn; c != nil && !c.streams {
		if d, ok := keepAlive(resp.Header["Keep-Alive"]); ok {
			c.setKeep(a, d)
		}
	}
}

// failed returns what to say of err.
func (a *attempt) failed(err error) error {
	if a.cancel != nil {
		if cause := context.Cause(a.req.Context()); errors.Is(err, context.Canceled) && cause != nil {
			err = cause
		}
		a.cancel(err)
	}
	return err
}

// blamed returns err as an *fault.UpstreamError if it is the server's doing:
// the connection failed under us, or what came back was no answer. An error of
// the client's body, of our own making, or of ctx is none.
func (a *attempt) blamed(ctx context.Context, err error) error {
	c := a.conn
	if c == nil || ctx.Err() != nil || a.client.Load() || errors.Is(err, errNotAgain) {
		return err
	}
	if c.down.Load() || c.streams && a.written.Load() || c.answering(a) {
		return &fault.UpstreamError{Err: err}
	}
	return err
}

// unsent reports whether nothing of the request has left, as far as HTTP/1 is
// concerned, and its body is as it was.
func (a *attempt) unsent() bool {
	if a.conn == nil || a.conn.streams || a.conn.wrote.Load() != a.start {
		return false
	}
	return a.body == nil || !a.body.begun.Load()
}

// end closes the body, which the caller of RoundTrip counts on.
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

// An emptyBody has nothing in it, and is not nil.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo is [io.WriterTo]: without it net/http allocates a buffer of 32 KiB for
// each request, to copy nothing.
func (emptyBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

func (emptyBody) Close() error { return nil }

// broken is called when the connection is closed, and ends the wait for a body
// that will not be needed: net/http does not report a lost connection before the
// body's reader has come back.
func (a *attempt) broken() {
	if a.body == nil {
		return
	}
	a.body.dead.Store(true)
	if a.body.reading.Load() && a.relay != nil {
		a.relay.interrupt()
	}
}

// A onceBody is the body of one attempt. Its Close leaves a body alone that
// nobody has read from, so that the next attempt can have it.
//
// Read sets reading before it looks at dead, and broken sets dead before it looks
// at reading, so that one of them sees the other. They are atomic because broken
// cannot wait for a Read.
type onceBody struct {
	a                    *attempt
	src                  io.ReadCloser
	begun, reading, dead atomic.Bool
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
	if err != nil && err != io.EOF {
		if c := b.a.on.Load(); c == nil || !c.down.Load() {
			b.a.client.Store(true)
		}
	}
	return n, err
}

func (b *onceBody) Close() error {
	if !b.begun.Load() {
		return nil
	}
	return b.src.Close()
}
