package engine_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cert"
)

// proxies are the proxies that ProxyOptions configure.
var proxies = map[string]struct {
	start  func(context.Context, engine.ProxyOptions) (*engine.Server, error)
	caches bool
}{
	"nginx":   {engine.NginxCache, true},
	"varnish": {engine.Varnish, true},
	"caddy":   {engine.Caddy, false},
}

// eachProxy runs a test for each proxy.
func eachProxy(t *testing.T, test func(t *testing.T, name string)) {
	for name := range proxies {
		t.Run(name, func(t *testing.T) {
			need(t, name)
			test(t, name)
		})
	}
}

func startProxy(t *testing.T, name string, o engine.ProxyOptions) *engine.Server {
	t.Helper()
	s, err := proxies[name].start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// An origin responds with the path; its responses may be stored.
type origin struct {
	addr         string
	conns, calls atomic.Int64
	hold         chan struct{} // a response to /held waits until it is closed
}

func startOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{hold: make(chan struct{})}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.calls.Add(1)
		if r.URL.Path == "/held" {
			<-o.hold
		}
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, r.Host, r.RequestURI)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			o.conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	o.addr = s.Listener.Addr().String()
	return o
}

// tryFetch is fetch for a separate goroutine: it returns an error as the response.
func tryFetch(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestProxiesFetchAndKeep(t *testing.T) {
	eachProxy(t, func(t *testing.T, name string) {
		o := startOrigin(t)
		s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr})
		want := strings.TrimPrefix(s.URL, "http://") + "/a?b=c"
		const times = 10
		for range times {
			if got := fetch(t, s.URL+"/a?b=c"); got != want {
				t.Fatalf("response %q; want %q, with the client's host", got, want)
			}
		}
		calls := int64(times)
		if proxies[name].caches {
			calls = 1
		}
		if got := o.calls.Load(); got != calls {
			t.Errorf("%d calls for %d requests of one URL; want %d", got, times, calls)
		}
		for i := range times {
			fetch(t, fmt.Sprintf("%s/%d", s.URL, i))
		}
		// Each of the two workers has its own connections.
		if got := o.conns.Load(); got > 2 {
			t.Errorf("%d connections to the origin for %d requests, one after the other; want them kept", got, 2*times)
		}
	})
}

// TestProxiesShareOneFill distinguishes a cache that makes other requests wait from no
// cache at all.
func TestProxiesShareOneFill(t *testing.T) {
	eachProxy(t, func(t *testing.T, name string) {
		o := startOrigin(t)
		s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr})
		const crowd = 5
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if got := tryFetch(s.URL + "/held"); !strings.HasSuffix(got, "/held") {
					t.Errorf("answer %q", got)
				}
			})
		}
		want := int64(crowd)
		if proxies[name].caches {
			want = 1
		}
		for end := time.Now().Add(10 * time.Second); o.calls.Load() < want && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // for calls that must not happen
		close(o.hold)
		all.Wait()
		if got := o.calls.Load(); got != want {
			t.Errorf("%d calls for %d requests at once; want %d", got, crowd, want)
		}
	})
}

func TestProxiesBoundCalls(t *testing.T) {
	eachProxy(t, func(t *testing.T, name string) {
		o := startOrigin(t)
		s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr, MaxCalls: 1})
		held := make(chan string)
		go func() { held <- tryFetch(s.URL + "/held") }()
		for end := time.Now().Add(10 * time.Second); o.calls.Load() < 1 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		resp, err := http.Get(s.URL + "/another")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 500 || o.calls.Load() != 1 {
			t.Errorf("beyond the one permitted call: status %d, %d calls; want a rejection and 1", resp.StatusCode, o.calls.Load())
		}
		close(o.hold)
		if got := <-held; !strings.HasSuffix(got, "/held") {
			t.Errorf("the one call: response %q; want the origin's", got)
		}
	})
}

func TestProxiesStopLeavesNothing(t *testing.T) {
	eachProxy(t, func(t *testing.T, name string) {
		dir := temp(t)
		o := startOrigin(t)
		s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr})
		fetch(t, s.URL)
		pids := append(children(t, s.Pid()), s.Pid())
		if err := s.Stop(); err != nil {
			t.Errorf("Stop = %v; want nil", err)
		}
		for _, pid := range pids {
			if !gone(pid) {
				t.Errorf("process %d of %v still runs", pid, pids)
			}
		}
		if left := entries(t, dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestProxiesOfAKilledProgramLeaveNothing(t *testing.T) {
	for _, name := range []string{"varnish", "caddy"} { // nginx has its own test
		t.Run(name, func(t *testing.T) {
			dir := temp(t)
			if pid := killedProgram(t, name); !gone(pid) {
				t.Errorf("process %d still runs", pid)
			}
			o := startOrigin(t)
			startProxy(t, name, engine.ProxyOptions{Upstream: o.addr}).Stop()
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("left behind after the next start: %v", left)
			}
		})
	}
}

// TestProxiesFailedStartSaysWhatTheServerSaid gives each proxy an origin without an
// address. Caddy resolves it only on a request.
func TestProxiesFailedStartSaysWhatTheServerSaid(t *testing.T) {
	for _, name := range []string{"nginx", "varnish"} {
		t.Run(name, func(t *testing.T) {
			need(t, name)
			dir := temp(t)
			_, err := proxies[name].start(t.Context(), engine.ProxyOptions{Upstream: "no.such.host.invalid:80"})
			if err == nil || !strings.Contains(err.Error(), "no.such.host.invalid") {
				t.Errorf("start = %v; want the server's own message", err)
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestProxyOptionsAreChecked(t *testing.T) {
	tests := []struct {
		options engine.ProxyOptions
		want    []string
	}{
		{engine.ProxyOptions{}, []string{`Upstream is ""`}},
		{engine.ProxyOptions{Upstream: "a;b:1", Store: 1, Workers: -1, MaxCalls: -2}, []string{`"a;b:1"`, "Store is 1", "Workers is -1", "MaxCalls is -2"}},
	}
	for name, p := range proxies {
		for _, tt := range tests {
			_, err := p.start(t.Context(), tt.options)
			if err == nil || errors.Is(err, engine.ErrMissing) {
				t.Errorf("%s(%v) = %v; want the fault of the options", name, tt.options, err)
				continue
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s(%v) = %v; want it to say %q", name, tt.options, err, want)
				}
			}
		}
	}
}

// TestProxiesSpeakHTTP2 sends requests over both protocols.
func TestProxiesSpeakHTTP2(t *testing.T) {
	for name, host := range map[string]string{"nginx": "127.0.0.2", "caddy": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			need(t, name)
			o := startOrigin(t)
			s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr, HTTP2: true})
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Get(strings.Replace(s.URL, "127.0.0.1", host, 1) + "/a")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
				t.Errorf("%s %d; want HTTP/2.0 200", resp.Proto, resp.StatusCode)
			}
			want := strings.TrimPrefix(s.URL, "http://") + "/b"
			if got := fetch(t, s.URL+"/b"); got != want {
				t.Errorf("over HTTP/1.1: %q; want %q", got, want)
			}
		})
	}
}

// TestConfigurationsSayWhatTheyDo checks that the configurations are documented: each
// setting has a comment above it, or belongs to one that has.
func TestConfigurationsSayWhatTheyDo(t *testing.T) {
	found, err := os.ReadDir("conf")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
		b, err := os.ReadFile("conf/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		comments := 0
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				comments++
			}
		}
		if lines := strings.Count(string(b), "\n"); comments*4 < lines {
			t.Errorf("%s: %d comments in %d lines; want the purpose of each setting", f.Name(), comments, lines)
		}
	}
	if want := []string{"Caddyfile", "nginx-cache.conf", "varnish.vcl", "weir.yaml"}; !slices.Equal(names, want) {
		t.Errorf("configurations %v; want %v", names, want)
	}
}

// TestProxiesSpeakTLS sends requests over TLS with both protocols, and without TLS.
func TestProxiesSpeakTLS(t *testing.T) {
	pair, err := cert.New(1, "127.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.Cert)
	for _, name := range []string{"nginx", "caddy"} {
		t.Run(name, func(t *testing.T) {
			need(t, name)
			o := startOrigin(t)
			s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr, TLS: &pair})
			for _, http2 := range []bool{false, true} {
				transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
				defer transport.CloseIdleConnections()
				resp, err := (&http.Client{Transport: transport}).Get(s.Secure + "/a")
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK || (resp.ProtoMajor == 2) != http2 {
					t.Errorf("%s %d over TLS; want 200, HTTP/2: %t", resp.Proto, resp.StatusCode, http2)
				}
			}
			if got, want := fetch(t, s.URL+"/b"), strings.TrimPrefix(s.URL, "http://")+"/b"; got != want {
				t.Errorf("without TLS: %q; want %q", got, want)
			}
		})
	}
}

// TestProxiesPass checks that no request is answered from a cache, and that none waits
// for another.
func TestProxiesPass(t *testing.T) {
	eachProxy(t, func(t *testing.T, name string) {
		o := startOrigin(t)
		s := startProxy(t, name, engine.ProxyOptions{Upstream: o.addr, Pass: true})
		fetch(t, s.URL+"/a")
		fetch(t, s.URL+"/a")
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { tryFetch(s.URL + "/held") })
		}
		for end := time.Now().Add(10 * time.Second); o.calls.Load() < 4 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		close(o.hold)
		both.Wait()
		if got := o.calls.Load(); got != 4 {
			t.Errorf("%d calls for 4 requests; want 4", got)
		}
	})
}
