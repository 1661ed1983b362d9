package console_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// A source is a console.Source that returns fixed values.
type source struct {
	console.BaseSource

	mu       sync.Mutex
	now      console.Snapshot // guarded by mu
	detail   console.Detail   // guarded by mu
	hot      inspect.HotKeys  // guarded by mu
	asked    int              // guarded by mu; number of snapshots
	detailed int              // guarded by mu; number of details
	panics   bool             // guarded by mu
}

func (s *source) Snapshot() console.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.panics {
		panic("the source is broken")
	}
	return s.now
}

func (s *source) Detail(unit string, most int) (console.Detail, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detailed++
	return s.detail, unit == s.detail.Unit.Name
}

func (s *source) HotKeys(unit string, most int) (inspect.HotKeys, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hot, unit == s.detail.Unit.Name
}

// tell changes the Units that s returns.
func (s *source) tell(units []console.Unit, limits ...console.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = console.Snapshot{At: time.Now(), Units: units, Limits: limits}
}

func (s *source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

var quiet = slog.New(slog.DiscardHandler)

// newConsole returns a Console that is closed when the test ends.
func newConsole(t testing.TB, o console.Options) *console.Console {
	t.Helper()
	if o.Source == nil {
		o.Source = &source{}
	}
	if o.Logger == nil {
		o.Logger = quiet
	}
	c, err := console.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// A call is a request on a connection to the address local: loopback by default, and
// no address if it is "none".
type call struct {
	method, target, host, body, local, client string

	header map[string]string
}

func (c call) request() *http.Request {
	r := httptest.NewRequest(cmp.Or(c.method, "GET"), c.target, strings.NewReader(c.body))
	if c.local != "none" {
		addr, _ := net.ResolveTCPAddr("tcp", cmp.Or(c.local, "127.0.0.1:9090"))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
	}
	r.Host = strings.TrimPrefix(cmp.Or(c.host, "localhost"), "none")
	r.RemoteAddr = cmp.Or(c.client, "127.0.0.1:40000")
	for name, v := range c.header {
		r.Header.Set(name, v)
	}
	return r
}

func (c call) on(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, c.request())
	return w
}

func get(target string) call { return call{target: target} }

func post(target, body string) call {
	return call{method: "POST", target: target, body: body, header: map[string]string{"Content-Type": "application/json"}}
}

// into decodes a JSON response.
func into[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
		t.Fatalf("response %d %s, %v; want 200 with JSON", w.Code, w.Body, err)
	}
	return v
}

// serve returns a client of a server with handler h, whose connections are pipes, so
// that it works in a synctest bubble with exact times.
func serve(t *testing.T, server *http.Server) *http.Client {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	transport := &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 100}
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
	return &http.Client{Transport: transport}
}

// pipes is a listener whose connections are created by dial.
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

// A listener reads an event stream.
type listener struct {
	t     *testing.T
	lines *bufio.Reader
	hello console.Hello
	end   context.CancelFunc
}

// listen opens the stream at url and reads its hello. The stream ends with the test.
func listen(t *testing.T, client *http.Client, url string, cookies ...*http.Cookie) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("events: %s %v %s; want a stream", resp.Status, resp.Header, b)
	}
	l := &listener{t: t, lines: bufio.NewReader(resp.Body), end: cancel}
	if got := l.line(); got != "retry: 2000" {
		t.Errorf("the stream begins with %q; want the reconnection time", got)
	}
	l.line()
	l.event("hello", &l.hello)
	return l
}

func (l *listener) line() string {
	l.t.Helper()
	line, err := l.lines.ReadString('\n')
	if err != nil {
		l.t.Fatalf("the stream ended with %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// event reads an event, which must have that name, into v.
func (l *listener) event(name string, v any) {
	l.t.Helper()
	if got := l.line(); got != "event: "+name {
		l.t.Fatalf("read %q; want event %s", got, name)
	}
	data, ok := strings.CutPrefix(l.line(), "data: ")
	if err := json.Unmarshal([]byte(data), v); err != nil || !ok {
		l.t.Fatalf("event %s: %v", name, err)
	}
	if end := l.line(); end != "" {
		l.t.Fatalf("event %s ends with %q", name, end)
	}
}

func (l *listener) tick() (tick console.Tick) {
	l.t.Helper()
	l.event("tick", &tick)
	return tick
}

// ended reads the remaining ticks, and reports whether the stream ended without an
// error.
func (l *listener) ended() bool {
	_, err := io.Copy(io.Discard, l.lines)
	return err == nil
}

func recorder(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
