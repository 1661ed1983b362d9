package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream"
)

// A world holds the servers of a test, by host, and a record of the calls to
// them.
type world struct {
	t          *testing.T
	background sync.WaitGroup

	mu     sync.Mutex
	hosts  map[string]func(*http.Request) (*http.Response, error) // guarded by mu
	log    []string                                               // guarded by mu: the hosts of the calls, without checks
	told   []string                                               // guarded by mu: changes of servers
	opened map[string]int                                         // guarded by mu
	closed map[string]int                                         // guarded by mu
}

// inBubble runs test in a bubble, in which no goroutine may remain at the end.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{
			t: t, hosts: map[string]func(*http.Request) (*http.Response, error){},
			opened: map[string]int{}, closed: map[string]int{},
		})
	})
}

// on sets the handler of host.
func (w *world) on(host string, f func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[host] = f
}

// A transport is the Transport of one host.
type transport struct {
	w    *world
	host string
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.w.mu.Lock()
	f := t.w.hosts[t.host]
	if r.URL.Path != "/check" {
		t.w.log = append(t.w.log, t.host)
	}
	t.w.mu.Unlock()
	if r.URL.Host != t.host || r.URL.Scheme != "http" {
		t.w.t.Errorf("URL = %v; want http and the host %s", r.URL, t.host)
	}
	if f == nil {
		f = status(200)
	}
	resp, err := f(r)
	if err != nil && r.Body != nil {
		r.Body.Close()
	}
	return resp, err
}

func (t *transport) Close() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.closed[t.host]++
}

// options returns Options for servers with these names, without checks, ejection
// or retries.
func options(hosts ...string) upstream.Options {
	o := upstream.Options{Health: upstream.Health{Failures: -1}, Retry: upstream.Retry{Attempts: 1}}
	for _, h := range hosts {
		o.Servers = append(o.Servers, upstream.Target{URL: &url.URL{Scheme: "http", Host: h}, Weight: 1})
	}
	return o
}

func (w *world) surroundings() upstream.Surroundings {
	return upstream.Surroundings{
		Background: &w.background,
		Jitter:     func(d time.Duration) time.Duration { return d },
		Changed:    w.changed,
		Open: func(base *url.URL, _ netip.AddrPort, _ upstream.Options) (upstream.Transport, error) {
			if base.Host == "unopenable" {
				return nil, errors.New("no")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.opened[base.Host]++
			return &transport{w, base.Host}, nil
		},
	}
}

// pool returns a Pool that is retired at the end of the test.
func (w *world) pool(o upstream.Options) *upstream.Pool {
	w.t.Helper()
	p, err := upstream.New(o, w.surroundings())
	if err != nil {
		w.t.Fatalf("New = %v", err)
	}
	w.t.Cleanup(func() {
		p.Retire()
		w.background.Wait()
	})
	return p
}

// changed records a change of a server.
func (w *world) changed(c upstream.ServerChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprint(c.Server, " ", c.State, " ", c.Failures, " ", c.For, " ", c.Err))
}

// wantTold checks the changes of servers since the last call of wantTold.
func (w *world) wantTold(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.told, want) {
		w.t.Errorf("the changes are %q; want %q", w.told, want)
	}
	w.told = nil
}

// calls returns the hosts of the calls since the last time it was called.
func (w *world) calls() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.log, " ")
	w.log = nil
	return s
}

// closings returns how often the idle connections of host were closed.
func (w *world) closings(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed[host]
}

func request(ctx context.Context, method, body string) *http.Request {
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://client.test/x", rd)
	if err != nil {
		panic(err)
	}
	return r
}

// get makes a complete call and returns its status, 0 for an error.
func get(t *testing.T, p *upstream.Pool) int {
	t.Helper()
	resp, err := p.RoundTrip(request(t.Context(), "GET", ""))
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// begin makes a call and leaves the response body open.
func begin(t *testing.T, p *upstream.Pool) *http.Response {
	t.Helper()
	resp, err := p.RoundTrip(request(t.Context(), "GET", ""))
	if err != nil {
		t.Fatalf("RoundTrip = %v", err)
	}
	return resp
}

func response(code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: body}
}

func status(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return response(code, io.NopCloser(strings.NewReader("body"))), nil
	}
}

func after(d time.Duration, f func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return f(r)
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

var errBroken = &fault.UpstreamError{Err: errors.New("broken")}

func broken(*http.Request) (*http.Response, error) { return nil, errBroken }

func unreachable(*http.Request) (*http.Response, error) {
	return nil, &fault.UnreachableError{Err: errors.New("refused")}
}

// hang responds only after an hour, so the caller gives up first.
var hang = after(time.Hour, status(200))

// stats returns the stats of one server.
func stats(t *testing.T, p *upstream.Pool, host string) upstream.ServerStats {
	t.Helper()
	servers, _, _ := p.Stats()
	for _, s := range servers {
		if s.URL == "http://"+host {
			return s
		}
	}
	t.Fatalf("no stats of %s in %+v", host, servers)
	return upstream.ServerStats{}
}
