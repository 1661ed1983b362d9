package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/gateway/httpwire"
	"github.com/weir-go/weir/weirhttp/stop"
)

// A direct sends requests without a body over HTTP/1.1 without TLS, and reads the
// responses, on the goroutine of the request.
//
// net/http uses two goroutines per connection: a response can arrive while the
// request's body is still being written, and the end of an idle connection must
// be noticed. A request without a body is completely written before its response
// is read, and an idle connection is checked before it is reused. Everything else
// is left to net/http, see [Transport.choose].
type direct struct {
	t *Transport
	// off is set once a connection cannot be checked without reading from it:
	// from then on, net/http handles all requests. It gets that connection, as
	// spare.
	off   atomic.Bool
	spare atomic.Pointer[framed]

	mu     sync.Mutex
	idle   []*directConn // guarded by mu; the most recently used one is last
	closed bool          // guarded by mu
}

// A directConn is a connection of a direct. It serves one request at a time.
type directConn struct {
	*framed
	d    *direct
	peek peeker
	br   *bufio.Reader
	bw   *bufio.Writer
	cut  func() // closes it
	// lines has the names of the fields of the latest request.
	lines httpwire.Fields
	left  int64 // how many more bytes of a header section may be read
	head  bool  // a header section is being read
}

// direct reports whether t.straight can send r.
func (t *Transport) direct(r *http.Request) bool {
	if t.straight == nil || t.straight.off.Load() || r.Body != nil && r.Body != http.NoBody || r.Close ||
		r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Trailer != nil {
		return false
	}
	for _, name := range []string{"Upgrade", "Connection", "expect"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	// A direct does not call the hooks of a client trace.
	return httptrace.ContextClientTrace(r.Context()) == nil
}

// errNotDirect means that a direct cannot use the connection, so net/http must
// send r.
var errNotDirect = errors.New("forward: the connection cannot be used directly")

// roundTrip sends a's request once.
func (d *direct) roundTrip(a *attempt) (*http.Response, error) {
	ctx := a.req.Context()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c, reused, err := d.get(ctx)
	if err != nil {
		return nil, err
	}
	a.took(c.c, reused)
	closing := stop.On(ctx, c.cut)
	resp, err := c.exchange(a)
	if err != nil {
		closing.Remove()
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	alive := !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	if resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = http.NoBody // a 101 is treated the same, even if no upgrade was requested
		if closing.Remove() && alive {
			d.put(a, c)
		} else {
			c.Close()
		}
		return resp, nil
	}
	resp.Body = &directBody{ReadCloser: resp.Body, a: a, c: c, closing: closing, alive: alive}
	return resp, nil
}

// exchange writes the request and reads the header section of its response.
func (c *directConn) exchange(a *attempt) (*http.Response, error) {
	if err := c.send(a.req); err != nil {
		return nil, err
	}
	if err := c.bw.Flush(); err != nil {
		return nil, err
	}
	for {
		c.left, c.head = c.d.t.o.MaxHeader, true
		resp, err := http.ReadResponse(c.br, a.req)
		if err != nil {
			return nil, err
		}
		c.head = false
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		if resp.StatusCode >= 100 {
			if err := a.got1xx(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
		}
		if resp.StatusCode < 100 {
			return resp, nil // the Forwarder refuses it
		}
	}
}

// send writes r to bw, as r.Write does: the same bytes, for which that allocates six objects.
func (c *directConn) send(r *http.Request) error {
	agent, named := r.Header["User-Agent"]
	if !named || !simple(r) {
		return r.Write(c.bw)
	}
	for _, s := range [...]string{r.Method, " ", r.URL.Opaque} {
		_, _ = c.bw.WriteString(s) // Flush reports an error
	}
	if r.URL.ForceQuery || r.URL.RawQuery != "" {
		_, _ = c.bw.WriteString("?")
		_, _ = c.bw.WriteString(r.URL.RawQuery)
	}
	_, _ = c.bw.WriteString(" HTTP/1.1\r\n")
	httpwire.WriteField(c.bw, "Host", r.Host)
	if len(agent) > 0 && agent[0] != "" {
		httpwire.WriteField(c.bw, "User-Agent", agent[0])
	}
	c.lines.Write(c.bw, r.Header, apart)
	_, err := c.bw.WriteString("\r\n")
	return err
}

// apart are the fields that are not written from the header of a request.
var apart = map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// simple reports whether r has no body, and a target and a Host that net/http writes unchanged.
func simple(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.Host == "" {
		return false
	}
	if t := r.URL.Opaque; t == "" || t[0] != '/' || strings.HasPrefix(t, "//") || controls(t) || controls(r.URL.RawQuery) {
		return false
	}
	for i := range len(r.Host) {
		if c := r.Host[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '.' && c != '-' && c != ':' {
			return false
		}
	}
	return true
}

// controls reports whether s has a control character of ASCII.
func controls(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// Read reads for br. It bounds header sections.
func (c *directConn) Read(p []byte) (int, error) {
	if !c.head {
		return c.framed.Read(p)
	}
	if c.left <= 0 {
		return 0, fmt.Errorf("forward: server response headers exceeded %d bytes", c.d.t.o.MaxHeader)
	}
	n, err := c.framed.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// get returns a connection: the most recently used one, or a new one.
func (d *direct) get(ctx context.Context) (c *directConn, reused bool, err error) {
	for {
		d.mu.Lock()
		n := len(d.idle)
		if n == 0 {
			d.mu.Unlock()
			break
		}
		c, d.idle = d.idle[n-1], d.idle[:n-1]
		d.mu.Unlock()
		if !c.c.lost.Load() && c.peek.quiet() {
			return c, true, nil
		}
		c.Close()
	}
	c, err = d.open(ctx)
	return c, false, err
}

// open returns a new connection.
func (d *direct) open(ctx context.Context) (*directConn, error) {
	nc, err := d.t.dial(ctx, d.t.network, d.t.address(), false)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	f := nc.(*framed) //nolint:forcetypeassert // always, without HTTP/2
	peek, ok := newPeeker(f.c.Conn)
	if !ok {
		d.off.Store(true)
		if !d.spare.CompareAndSwap(nil, f) {
			f.Close()
		}
		return nil, errNotDirect
	}
	f.c.direct = true
	c := &directConn{framed: f, d: d, peek: peek, bw: bufio.NewWriter(f)}
	c.br = bufio.NewReader(c)
	c.cut = func() { c.Close() }
	f.c.onExpired(func() { d.drop(c) })
	return c, nil
}

// address returns the server's address.
func (t *Transport) address() string {
	switch {
	case t.network == "unix":
		return t.o.BaseURL.Path
	case t.o.BaseURL.Port() != "":
		return t.host
	case t.scheme == "https":
		return net.JoinHostPort(t.o.BaseURL.Hostname(), "443")
	}
	return net.JoinHostPort(t.o.BaseURL.Hostname(), "80")
}

// put keeps c for the next request after a.
func (d *direct) put(a *attempt, c *directConn) {
	d.mu.Lock()
	keep := !d.closed && c.br.Buffered() == 0 && c.fault == nil && !c.c.lost.Load() && !c.c.old() && len(d.idle) < d.t.o.MaxIdleConns
	if keep {
		d.idle = append(d.idle, c)
	}
	d.mu.Unlock()
	if !keep {
		c.Close()
		return
	}
	c.c.put(a)
}

// drop removes c, which was idle for too long.
func (d *direct) drop(c *directConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.idle, c); i >= 0 {
		d.idle = slices.Delete(d.idle, i, i+1)
	}
}

// close closes the idle connections, and makes later ones close when they become
// idle.
func (d *direct) close() {
	d.mu.Lock()
	idle := d.idle
	d.idle, d.closed = nil, true
	d.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	if f := d.spare.Swap(nil); f != nil {
		f.Close()
	}
}

// A directBody is the body of a response. At its end, the connection becomes
// free.
type directBody struct {
	io.ReadCloser
	a       *attempt
	c       *directConn
	closing stop.Hook
	alive   bool // the connection can be reused after the complete body
	err     error
}

// Read reads from the body.
func (b *directBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if ctx := b.a.req.Context(); err != io.EOF && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		b.end(err)
	}
	return n, err
}

// Close closes the connection if the body was not read to its end.
func (b *directBody) Close() error {
	if b.err == nil {
		b.end(errBodyClosed)
	}
	return nil
}

var errBodyClosed = errors.New("forward: read of a closed body")

// end records err as the end of the body.
func (b *directBody) end(err error) {
	b.err = err
	if b.closing.Remove() && err == io.EOF && b.alive {
		b.c.d.put(b.a, b.c)
		return
	}
	b.c.Close()
}

// Buffered returns how many bytes of the body, and of what follows it, can be
// read without waiting.
func (b *directBody) Buffered() int {
	if b.err != nil {
		return 0
	}
	return b.c.br.Buffered()
}

var _ net.Conn = (*directConn)(nil)
