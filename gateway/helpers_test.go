package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// An origin is a server behind the gateway. It counts its calls.
type origin struct {
	name    string
	addr    string
	serve   http.HandlerFunc
	server  *httptest.Server
	calls   atomic.Int64
	running atomic.Int64
	peak    atomic.Int64 // most calls at once
}

// serving starts an origin that answers as serve does, nil: with its name.
func serving(t *testing.T, name string, serve http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{name: name, serve: serve, addr: "127.0.0.1:0"}
	o.start(t)
	t.Cleanup(o.kill)
	return o
}

func (o *origin) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		t.Fatalf("Listen(%s): %v", o.addr, err)
	}
	o.addr = l.Addr().String()
	o.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: o}}
	o.server.Start()
}

// kill ends it with what it is about.
func (o *origin) kill() {
	o.server.CloseClientConnections()
	o.server.Close()
}

func (o *origin) url() string { return "http://" + o.addr }

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.calls.Add(1)
	now := o.running.Add(1)
	defer o.running.Add(-1)
	for old := o.peak.Load(); now > old && !o.peak.CompareAndSwap(old, now); old = o.peak.Load() {
	}
	if o.serve != nil {
		o.serve(w, r)
		return
	}
	io.WriteString(w, o.name)
}

// upstreamOf is an upstream called "main" of origins.
func upstreamOf(origins ...*origin) gateway.Upstream {
	u := gateway.Upstream{Name: "main"}
	for _, o := range origins {
		u.Servers = append(u.Servers, o.url())
	}
	return u
}

// config is one route to one upstream.
func config(u gateway.Upstream) gateway.Config {
	return gateway.Config{Upstreams: []gateway.Upstream{u}, Routes: []gateway.Route{{Name: "all"}}}
}

// A site is a Gateway behind a listener.
type site struct {
	t      *testing.T
	g      *gateway.Gateway
	url    string
	client *http.Client
	aside  *http.Client // for turn, or nil
}

// open starts a Gateway. It is closed at the end.
func open(t *testing.T, c gateway.Config) *site {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	server := httptest.NewServer(g)
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return &site{t: t, g: g, url: server.URL, client: &http.Client{Transport: transport}}
}

// A reply is an answer read whole.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (s *site) do(r *http.Request) reply {
	resp, err := s.client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// request makes a request; fields are names and values.
func (s *site) request(method, path string, body io.Reader, fields ...string) *http.Request {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		s.t.Error(err)
	}
	for pair := range slices.Chunk(fields, 2) {
		if pair[0] == "Host" {
			r.Host = pair[1]
		}
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

func (s *site) get(path string, fields ...string) reply {
	return s.do(s.request("GET", path, nil, fields...))
}

// want checks the answer to a GET.
func (s *site) want(path string, status int, body string, fields ...string) {
	s.t.Helper()
	got := s.get(path, fields...)
	if got.err != nil || got.status != status || !strings.HasPrefix(got.body, body) {
		s.t.Errorf("GET %s %q = %d %q, %v; want %d %q", path, fields, got.status, got.body, got.err, status, body)
	}
}

// turn lets others have a turn, for the time of an answer that makes no call. It
// comes over a connection of its own: on one that had an answer before, net/http
// repeats a GET that is cut off before the first byte, and a test that counts
// calls would count that.
func (s *site) turn() {
	s.t.Helper()
	if s.aside == nil {
		s.aside = s.anew()
	}
	other := *s
	other.client = s.aside
	other.want("/no/such/thing", 504, "", "Cache-Control", "only-if-cached")
}

// stored waits until n answers are stored, which is a little after the first
// client has its own.
func (s *site) stored(n int) {
	s.t.Helper()
	for s.g.Cache().Stats().Responses != n {
		s.turn()
	}
}

// update has to work.
func (s *site) update(c gateway.Config) {
	s.t.Helper()
	if err := s.g.Update(c); err != nil {
		s.t.Fatalf("Update = %v", err)
	}
}

// A barrier holds calls until it is opened, and tells when there are n.
type barrier struct {
	n       int
	all     chan struct{}
	release chan struct{}
	mu      sync.Mutex
	there   int // guarded by mu
}

func newBarrier(n int) *barrier {
	return &barrier{n: n, all: make(chan struct{}), release: make(chan struct{})}
}

func (b *barrier) wait(r *http.Request) {
	b.mu.Lock()
	b.there++
	if b.there == b.n {
		close(b.all)
	}
	b.mu.Unlock()
	select {
	case <-b.release:
	case <-r.Context().Done():
	}
}

// big is a body of some size.
func big(n int) *bytes.Reader { return bytes.NewReader(bytes.Repeat([]byte("x"), n)) }
