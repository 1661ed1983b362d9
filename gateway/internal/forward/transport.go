package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// Options configure a Transport. Only BaseURL is required.
type Options struct {
	// BaseURL is the server: the scheme http, https, or h2c for HTTP/2 without
	// TLS, and a host, whose path is ignored. Or the scheme unix and the path of a socket.
	BaseURL *url.URL
	// Address is the address that connections are opened to, instead of BaseURL's. TLS still
	// expects BaseURL's host. The zero value changes nothing.
	Address netip.AddrPort
	// ConnectTimeout bounds dialling and the TLS handshake together. 0 means 5 s.
	ConnectTimeout time.Duration
	// IdleConn is how long an unused connection is kept, unless the server states
	// its own timeout with Keep-Alive: timeout. 0 means 2 s.
	IdleConn time.Duration
	// MaxConnAge is how long a connection takes new requests, less up to a quarter of it. Those
	// in flight are completed. 0 means without end.
	MaxConnAge time.Duration
	// MaxIdleConns is the number of idle connections that are kept. 0 means 256.
	MaxIdleConns int
	// TLS configures https. nil means the system's root certificates.
	TLS *tls.Config
	// ServerName is the name sent to the server (SNI), which its certificate
	// must match, unless TLS has one. Empty means BaseURL's host.
	ServerName string
	// MaxHeader bounds the header section of a response, in bytes. 0 means 1 MiB.
	MaxHeader int64
	// Resolver looks up the host. nil means net.DefaultResolver.
	Resolver *net.Resolver
	// Dial opens connections. nil means TCP, or the socket.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// NetHTTP makes net/http send all requests, including those that a direct
	// could send.
	NetHTTP bool
}

// A Transport is a RoundTripper to one server that sends a request once.
//
// net/http automatically resends a request that it considers safe to repeat,
// which includes every GET. A Transport sends a request again only if it cannot have
// reached the server's application, and then whatever its method: nothing of it was
// written, or an HTTP/2 server refused the stream or announced with GOAWAY that it will
// not process it (RFC 9113, section 8.7). In all other cases, RoundTrip returns the error
// of the broken connection.
//
// A Transport relays 1xx responses to the Forwarder that made the request. It is
// safe for concurrent use.
type Transport struct {
	o      Options
	scheme string // http or https
	host   string

	network string // tcp or unix

	// two has the HTTP/2 connections, which main opens; both are nil for a server
	// without HTTP/2.
	two  *streams
	main *http.Transport
	// old uses HTTP/1.1 only, and is nil for h2c. With TLS it is for upgrades, and
	// for all requests once the server has chosen HTTP/1.1.
	old    *http.Transport
	chosen atomic.Bool              // the server chose HTTP/1.1
	spare  atomic.Pointer[net.Conn] // the connection on which it did, for old

	surplus surplus
	dead    dead

	straight *direct // nil with TLS or HTTP/2
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a Transport, which must be closed.
func NewTransport(o Options) (*Transport, error) {
	socket := o.BaseURL != nil && o.BaseURL.Scheme == "unix" && o.BaseURL.Path != ""
	if o.BaseURL == nil || o.BaseURL.Host == "" && !socket {
		return nil, errors.New("forward: BaseURL has no host")
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.IdleConn <= 0 {
		o.IdleConn = 2 * time.Second
	}
	if o.MaxIdleConns <= 0 {
		o.MaxIdleConns = 256
	}
	if o.MaxHeader <= 0 {
		o.MaxHeader = 1 << 20
	}
	if o.Dial == nil {
		o.Dial = newDialer(o.Resolver).dial
	}
	t := &Transport{o: o, scheme: o.BaseURL.Scheme, host: o.BaseURL.Host, network: "tcp"}
	if socket {
		t.scheme, t.host, t.network = "http", "localhost", "unix"
	}
	switch t.scheme {
	case "http":
		t.old = t.client(false)
		if !o.NetHTTP {
			t.straight = &direct{t: t}
		}
	case "h2c":
		t.scheme = "http"
		t.main = t.client(true)
	case "https":
		t.main = t.client(true)
		t.old = t.client(false)
	default:
		return nil, fmt.Errorf("forward: BaseURL has scheme %q; want http, https or h2c", t.scheme)
	}
	if t.main != nil {
		t.two = &streams{t: t}
	}
	return t, nil
}

// client returns an http.Transport for HTTP/2 or for HTTP/1.
func (t *Transport) client(two bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!two)
	protocols.SetHTTP2(two && t.scheme == "https")
	protocols.SetUnencryptedHTTP2(two && t.scheme == "http")
	c := &http.Transport{
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           t.o.MaxIdleConns,
		MaxIdleConnsPerHost:    t.o.MaxIdleConns,
		MaxResponseHeaderBytes: t.o.MaxHeader,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return t.dial(ctx, t.network, t.address(), false)
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if nc := t.spare.Swap(nil); nc != nil {
				return *nc, nil
			}
			return t.dialTLS(ctx, network, address, false)
		},
	}
	if two {
		opened := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return ctx.Value(openedKey{}).(net.Conn), nil //nolint:forcetypeassert // see streams.open
		}
		c.DialContext, c.DialTLSContext = opened, opened
		// HTTP/2 ends an idle connection without harming a request that arrives
		// at that moment. HTTP/1 connections handle this themselves: see conn.
		c.IdleConnTimeout = t.o.IdleConn
	}
	return c
}

// dial opens a connection without TLS.
func (t *Transport) dial(ctx context.Context, network, address string, two bool) (net.Conn, error) {
	if t.straight != nil {
		if f := t.straight.spare.Swap(nil); f != nil {
			return f, nil
		}
	}
	ctx, cancel := t.connecting(ctx)
	defer cancel()
	nc, err := t.open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, over: make(chan struct{}), keep: t.o.IdleConn, streams: two, surplus: &t.surplus, until: t.lastUse()}
	c.unused()
	if two {
		return c, nil
	}
	return newFramed(c, c), nil
}

// dialTLS opens a connection with TLS, and offers HTTP/2 if two is set.
func (t *Transport) dialTLS(ctx context.Context, network, address string, two bool) (net.Conn, error) {
	ctx, cancel := t.connecting(ctx)
	defer cancel()
	nc, err := t.open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, over: make(chan struct{}), keep: t.o.IdleConn, surplus: &t.surplus, until: t.lastUse()}
	tc := tls.Client(c, t.config(address, two))
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, &fault.UnreachableError{Err: withoutTLS(err)}
	}
	state := tc.ConnectionState()
	c.tls = &state
	switch {
	case state.NegotiatedProtocol == "h2":
		c.streams = true
		return tc, nil
	case two:
		t.chosen.Store(true)
	}
	c.unused()
	return newFramed(tc, c), nil
}

// connecting returns the context in which a connection for a request with ctx is opened. It ends
// with ctx, but does not show its deadline: a dialer gives that to the socket, which may time out
// before ctx ends, and divides it among the addresses of a name. Then the time that a client
// states would look like a server that cannot be reached, and others would not be sent there.
func (t *Transport) connecting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(timeless{ctx}, t.o.ConnectTimeout)
}

// A timeless is a context that does not show its deadline.
type timeless struct{ context.Context }

// Deadline implements [context.Context].
func (timeless) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// lastUse returns when a new connection becomes too old for another request, zero for never.
func (t *Transport) lastUse() time.Time {
	age := t.o.MaxConnAge
	if age <= 0 {
		return time.Time{}
	}
	return time.Now().Add(age - rand.N(age/4+1)) // so that they do not end together
}

// ours reports whether a connection failed for lack of resources on this machine.
func ours(err error) bool {
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// config returns the TLS configuration for a handshake with address.
func (t *Transport) config(address string, two bool) *tls.Config {
	config := new(tls.Config)
	if t.o.TLS != nil {
		config = t.o.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = t.o.ServerName
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	config.NextProtos = []string{"http/1.1"}
	if two {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return config
}

// RoundTrip sends r to the server, regardless of the scheme and host of r's URL,
// and returns the response with its body unread. The error is a
// *fault.UnreachableError if nothing of r was sent and its body was not read.
//
// If an idle connection turns out to be dead before anything of r was written to
// it, the next one is tried, and finally a fresh one.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := r.Body
	if body == http.NoBody {
		body = nil
	}
	for resends := 0; ; {
		a, resp, err := t.send(r, body)
		if err != nil && r.Context().Err() != nil {
			a.left()
		}
		if err == nil {
			a.answered(resp)
			if t.scheme == "http" && refusesPlain(resp) {
				resp.Body.Close()
				return nil, &fault.UpstreamError{Err: wantsTLS()}
			}
			if resp.ProtoMajor > 1 && !lengthIsClear(resp.Header["Content-Length"]) {
				resp.Body.Close()
				return nil, &fault.UpstreamError{Err: &ProtocolError{"Content-Length is repeated or not a number"}}
			}
			return resp, nil
		}
		if a.endless != nil {
			a.end()
			return nil, a.endless
		}
		if err == errOldProtocol { //nolint:errorlint // it is returned unwrapped
			continue
		}
		if a.conn != nil && a.conn.streams {
			next, err := a.again(r, body, resends, err)
			if err != nil {
				a.end()
				return nil, err
			}
			body, resends = next, resends+1
			continue
		}
		err = a.blamed(r.Context(), a.mismatched(err))
		if !a.unsent() {
			a.end()
			return nil, err
		}
		if cause := context.Cause(r.Context()); cause != nil {
			a.end()
			return nil, cause
		}
		if !a.reused && !a.conn.lost.Load() {
			a.end()
			if a.conn.down.Load() {
				// A fresh connection that the server ended before sending a byte:
				// the server is there, but does not talk to us.
				err = &fault.UnreachableError{Err: err}
			}
			return nil, err
		}
	}
}

// send sends r once.
func (t *Transport) send(r *http.Request, body io.ReadCloser) (a *attempt, resp *http.Response, err error) {
	if t.direct(r) {
		a = newDirectAttempt(t, r)
		resp, err = t.straight.roundTrip(a)
		if err != errNotDirect { //nolint:errorlint // it is returned unwrapped
			return a, resp, err
		}
	}
	two, r := t.choose(r)
	a = newAttempt(t, r, body, two)
	if two {
		resp, err = t.two.roundTrip(a)
	} else {
		resp, err = t.old.RoundTrip(a.req)
	}
	return a, resp, err
}

// choose reports whether r is sent over HTTP/2. It removes an upgrade that the server
// cannot do: an upgrade is only an offer (RFC 9110, section 7.8), and HTTP/2 has none.
func (t *Transport) choose(r *http.Request) (two bool, _ *http.Request) {
	_, upgrade := r.Header["Upgrade"]
	switch {
	case t.two == nil, t.old != nil && (upgrade || t.chosen.Load()):
		return false, r
	case !upgrade:
		return true, r
	}
	r = r.Clone(r.Context())
	delete(r.Header, "Upgrade")
	delete(r.Header, "Connection")
	return true, r
}

// Close closes the idle connections. Calls in progress continue.
func (t *Transport) Close() {
	if t.two != nil {
		t.two.close()
	}
	if nc := t.spare.Swap(nil); nc != nil {
		(*nc).Close()
	}
	if t.straight != nil {
		t.straight.close()
	}
	if t.old != nil {
		t.old.CloseIdleConnections()
	}
}

// keepAlive returns how long a connection with these Keep-Alive fields of the
// server may be kept: one second less than the server's timeout.
func keepAlive(values []string) (time.Duration, bool) {
	for _, v := range values {
		for param := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
			if err != nil {
				continue
			}
			return time.Duration(max(int64(n)-1, 0)) * time.Second, true
		}
	}
	return 0, false
}
