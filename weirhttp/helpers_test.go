package weirhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A site is a Handler in front of an origin, behind an HTTP server whose connections
// are pipes. It works in a bubble, where time is exact.
type site struct {
	t       *testing.T
	handler *weirhttp.Handler
	calls   atomic.Int64 // of the origin
	peak    atomic.Int64 // highest number of concurrent calls
	running atomic.Int64
	came    atomic.Int64 // to the Handler
	client  *http.Client
}

// A protocol is the HTTP version of the clients.
type protocol string

const (
	h1 protocol = "HTTP/1.1"
	h2 protocol = "HTTP/2"
)

// both runs test, which uses a bubble, for both protocols.
func both(t *testing.T, test func(t *testing.T, p protocol)) {
	for _, p := range []protocol{h1, h2} {
		if p == h2 && !h2InBubbles {
			continue
		}
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// open opens a site. It is closed at the end of the test, or of the bubble.
func open(t *testing.T, p protocol, o weirhttp.Options, origin http.HandlerFunc) *site {
	t.Helper()
	s := &site{t: t}
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		now := s.running.Add(1)
		defer s.running.Add(-1)
		for old := s.peak.Load(); now > old && !s.peak.CompareAndSwap(old, now); old = s.peak.Load() {
		}
		origin(w, r)
	}), o)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = h
	s.client = dialled(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.came.Add(1)
		h.ServeHTTP(w, r)
	}))
	return s
}

// dialled returns a client of a server with handler h.
func dialled(t *testing.T, p protocol, h http.Handler) *http.Client {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(p == h1)
	protocols.SetUnencryptedHTTP2(p == h2)
	server := &http.Server{Handler: h, Protocols: protocols}
	transport := &http.Transport{
		DialContext: l.dial, Protocols: protocols, DisableCompression: true,
		MaxIdleConnsPerHost: 1000, MaxConnsPerHost: 0,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// pipes is a listener whose connections are made by dial.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

// fields are request fields: name, value, name, value.
func (s *site) request(ctx context.Context, method, target string, fields ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://shop.example"+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func (s *site) do(r *http.Request) reply {
	began := time.Now()
	resp, err := s.client.Do(r)
	if err != nil {
		return reply{err: err, took: time.Since(began)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err, time.Since(began)}
}

func (s *site) get(target string, fields ...string) reply {
	return s.do(s.request(s.t.Context(), http.MethodGet, target, fields...))
}

// together sends n requests at once and returns their replies.
func (s *site) together(n int, request func(i int) *http.Request) []reply {
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		r := request(i)
		wg.Go(func() { replies[i] = s.do(r) })
	}
	wg.Wait()
	return replies
}

// same returns a function that makes the same request each time.
func (s *site) same(target string, fields ...string) func(int) *http.Request {
	return func(int) *http.Request { return s.request(s.t.Context(), http.MethodGet, target, fields...) }
}

func (s *site) wantCalls(n int64) {
	s.t.Helper()
	if got := s.calls.Load(); got != n {
		s.t.Errorf("the origin was called %d times; want %d", got, n)
	}
}

// answering returns an origin that waits for after, and responds with fields (name,
// value, ...) and the path.
func answering(after time.Duration, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(after)
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}
}

func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if r.err != nil || r.status != status || r.body != body {
		t.Errorf("got %d %q, %v; want %d %q", r.status, shortened(r.body), r.err, status, shortened(body))
	}
}

func shortened(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

func has(t *testing.T, r reply, name, part string) {
	t.Helper()
	if got := strings.Join(r.header.Values(name), ", "); !strings.Contains(got, part) {
		t.Errorf("%s = %q; want it to contain %q", name, got, part)
	}
}
