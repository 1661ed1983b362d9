package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// patience is how long a test waits for what has to come, on a machine that is
// busy with something else.
const patience = 30 * time.Second

// overBoth runs f before a gateway that speaks HTTP/1.1, and before one that
// speaks HTTP/2 over TLS.
func overBoth(t *testing.T, f func(t *testing.T, open func(gateway.Config) *site)) {
	t.Run("HTTP1", func(t *testing.T) {
		f(t, func(c gateway.Config) *site { t.Helper(); return open(t, c) })
	})
	t.Run("HTTP2", func(t *testing.T) {
		f(t, func(c gateway.Config) *site { t.Helper(); return openHTTP2(t, c) })
	})
}

// openHTTP2 starts a Gateway to which clients speak HTTP/2.
func openHTTP2(t *testing.T, c gateway.Config) *site {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	server := httptest.NewUnstartedServer(g)
	server.EnableHTTP2 = true
	server.StartTLS()
	s := &site{t: t, g: g, url: server.URL, client: server.Client()}
	s.client.Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		server.Close()
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	if resp, err := s.client.Get(s.url + "/-"); err != nil || resp.ProtoMajor != 2 {
		t.Fatalf("GET = %v, %v; want an answer over HTTP/2", resp, err)
	} else {
		io.Copy(io.Discard, resp.Body) // to its end, or it counts as one who has left
		resp.Body.Close()
	}
	s.until("the permit of that is back", func() bool { // a little after its answer
		for _, u := range s.g.Stats().Upstreams {
			if u.Limit.InUse > 0 {
				return false
			}
		}
		return true
	})
	return s
}

// anew returns a client with connections of its own.
func (s *site) anew() *http.Client {
	transport := s.client.Transport.(*http.Transport).Clone()
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// crowd asks n times at once, and returns what waits for the answers.
func (s *site) crowd(n int, ask func(i int) *http.Request) func() []reply {
	replies := make([]reply, n)
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() { replies[i] = s.do(ask(i)) })
	}
	return func() []reply {
		clients.Wait()
		return replies
	}
}

// same is what crowd asks when all ask the same.
func (s *site) same(path string, fields ...string) func(int) *http.Request {
	return func(int) *http.Request { return s.request("GET", path, nil, fields...) }
}

// until waits for ok.
func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !ok(); s.turn() {
		if time.Now().After(end) {
			s.t.Fatalf("waited too long until %s: %+v", what, s.g.Stats())
		}
	}
}

// waiting waits until n requests wait for another's call.
func (s *site) waiting(n int) {
	s.t.Helper()
	s.until("all wait", func() bool { return s.stats().Waiting == n })
}

// stats are those of the only route.
func (s *site) stats() weirhttp.Stats { return s.g.Stats().Routes["all"] }

// all checks every answer of a crowd.
func (s *site) all(replies []reply, status int, body string) {
	s.t.Helper()
	for i, got := range replies {
		if got.err != nil || got.status != status || got.body != body {
			s.t.Errorf("client %d: %d %.80q, %v; want %d %.80q", i, got.status, got.body, got.err, status, body)
		}
	}
}

// probed leaves out of an origin what openHTTP2 asks for to begin with.
func probed(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/-" {
			serve(w, r)
		}
	}
}

// A gathering is an origin's handler that counts calls, and holds each until it
// is let go, or the test has waited long enough.
type gathering struct {
	calls atomic.Int64
	there chan struct{} // one for each call
	let   chan struct{} // one lets one call go; closed, all
}

func newGathering() *gathering {
	return &gathering{there: make(chan struct{}, 10_000), let: make(chan struct{})}
}

// hold is called by the origin.
func (g *gathering) hold(r *http.Request) int64 {
	n := g.calls.Add(1)
	g.there <- struct{}{}
	select {
	case <-g.let:
	case <-r.Context().Done():
	}
	return n
}

// await waits until n more calls are there, all at the same time.
func (g *gathering) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(patience)
	for i := range n {
		select {
		case <-g.there:
		case <-late:
			t.Fatalf("%d calls to the origin at once; want %d", i, n)
		}
	}
}

// letGo lets n calls go.
func (g *gathering) letGo(n int) {
	for range n {
		select {
		case g.let <- struct{}{}:
		case <-time.After(patience):
			panic("no call is held at the origin")
		}
	}
}

// A rawOrigin is a server behind the gateway that is a function for each
// connection.
type rawOrigin struct {
	addr     string
	accepted atomic.Int64
	open     atomic.Int64
}

func rawServing(t *testing.T, serve func(c net.Conn, br *bufio.Reader)) *rawOrigin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &rawOrigin{addr: l.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.accepted.Add(1)
			o.open.Add(1)
			c.SetDeadline(time.Now().Add(2 * patience))
			conns.Go(func() {
				defer o.open.Add(-1)
				defer c.Close()
				serve(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return o
}

func (o *rawOrigin) config() gateway.Config {
	return config(gateway.Upstream{Name: "main", Servers: []string{"http://" + o.addr}})
}

// readHead reads a request's head, and returns its path; "" at the end.
func readHead(br *bufio.Reader) (path string) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return ""
	}
	io.Copy(io.Discard, r.Body)
	return r.URL.Path
}

// rawDial connects to a site that speaks HTTP/1.1 without TLS.
func (s *site) rawDial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}
