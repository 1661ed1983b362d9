package forward_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// A link is a listener and a way to dial it: over loopback, or over net.Pipe in a
// bubble.
type link struct {
	net.Listener
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func loopback(t *testing.T) link {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return link{ln, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}}
}

// pipes returns a link in memory.
func pipes(t *testing.T) link {
	p := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	t.Cleanup(func() { p.Close() })
	return link{p, p.dial}
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// An origin is a server implemented by a function of the connection.
type origin struct {
	link
	wg sync.WaitGroup
}

// serve calls fn for each connection to ln, and closes the connection afterwards.
func serve(t *testing.T, ln link, fn func(c net.Conn, br *bufio.Reader)) *origin {
	o := &origin{link: ln}
	o.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			o.wg.Go(func() {
				defer c.Close()
				fn(c, bufio.NewReader(c))
			})
		}
	})
	return o
}

// transport returns a Transport to o.
func (o *origin) transport(t *testing.T, scheme string, change ...func(*forward.Options)) *forward.Transport {
	options := forward.Options{BaseURL: &url.URL{Scheme: scheme, Host: "origin.test"}, Dial: o.dial, NetHTTP: netHTTP}
	for _, fn := range change {
		fn(&options)
	}
	tr, err := forward.NewTransport(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// front serves f over HTTP/1.1 at ln.
func front(t *testing.T, ln link, f http.Handler) *http.Server {
	srv := &http.Server{Handler: f, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0)}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return srv
}

// A rig is a client's connection to a Forwarder before an origin.
type rig struct {
	*testing.T
	f      *forward.Forwarder
	origin *origin
	link   link
}

func newRig(t *testing.T, fn func(c net.Conn, br *bufio.Reader)) *rig {
	return newRigOn(t, loopback, fn)
}

func newRigOn(t *testing.T, kind func(*testing.T) link, fn func(c net.Conn, br *bufio.Reader)) *rig {
	o := serve(t, kind(t), fn)
	if _, ok := o.Listener.(*pipeListener); ok {
		// net/http's server waits a moment before it closes some connections.
		t.Cleanup(func() { time.Sleep(time.Second) })
	}
	f := &forward.Forwarder{RoundTrip: o.transport(t, "http").RoundTrip}
	ln := kind(t)
	front(t, ln, f)
	return &rig{t, f, o, ln}
}

// A client is a raw connection to the front.
type client struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

func (r *rig) client() *client {
	r.Helper()
	c, err := r.link.dial(context.Background(), "", "")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return &client{c, r.T, bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("Write(%q) = %v", s, err)
	}
}

// head reads the header section of a response, including line ends.
func (c *client) head() string {
	c.t.Helper()
	s, err := readHead(c.br)
	if err != nil {
		c.t.Fatalf("reading the header of a response: %q, %v", s, err)
	}
	return s
}

// answer reads a complete response to method.
func (c *client) answer(method string) (*http.Response, string, error) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("ReadResponse = %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// rest reads until the connection ends.
func (c *client) rest() (string, error) {
	b, err := io.ReadAll(c.br)
	return string(b), err
}

func readHead(br *bufio.Reader) (string, error) {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

// answers returns an origin that reads requests without bodies and sends the same
// response to each.
func answers(s string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := readHead(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, s); err != nil {
				return
			}
		}
	}
}

// A recorder passes the recorded requests to one reader.
type recorder struct {
	mu   sync.Mutex
	list []string
}

func (r *recorder) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// get sends a request through rt, without a server.
func get(rt http.RoundTripper) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://client.test/", nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func isEOF(err error) bool { return err == nil || errors.Is(err, io.EOF) }

// watched reports when this side closes the connections that dial opens.
func watched(dial func(context.Context, string, string) (net.Conn, error), closed func()) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: c, closed: closed}, nil
	}
}

type watchedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *watchedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

func mustURL(t *testing.T, s string) *url.URL {
	scheme, host, _ := strings.Cut(s, "://")
	return &url.URL{Scheme: scheme, Host: host}
}

// certificate creates a certificate for tests, without a name.
func certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), DNSNames: []string{"origin.test", "front.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
