package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

var milliseconds = &weirhttp.DurationField{Name: "X-Request-Timeout", Unit: weirhttp.Milliseconds}

// H44: a client's deadline ends its own request with 504; one that shares the call has the response, and the origin
// receives the time of the route.
func TestH44_ADeadlineOverRealConnections(t *testing.T) {
	var mu sync.Mutex
	var times []string
	hold := make(chan struct{})
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		times = append(times, strings.Join(r.Header["X-Time"], "|")+" "+strings.Join(r.Header["X-Request-Timeout"], "|"))
		mu.Unlock()
		w.Header().Set("Cache-Control", "max-age=60")
		<-hold
		io.WriteString(w, "x")
	})
	u := upstreamOf(o)
	u.TellDeadline = &weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Seconds}
	c := config(u)
	c.Routes[0].Deadline, c.Routes[0].Timeout = milliseconds, 30*time.Second
	s := open(t, c)
	patient := make(chan reply, 1)
	first := make(chan reply, 1)
	go func() { first <- s.get("/a", "X-Request-Timeout", "1", "X-Time", "1") }()
	go func() { patient <- s.get("/a", "X-Request-Timeout", "25000") }()
	if r := <-first; r.status != 504 || !strings.Contains(r.header.Get("Proxy-Status"), "http_response_timeout") {
		t.Errorf("got %d with Proxy-Status %q; want 504 with http_response_timeout", r.status, r.header.Get("Proxy-Status"))
	}
	s.until("a call", func() bool { return o.calls.Load() > 0 && s.g.Stats().Routes["all"].Deadlines.Stated == 2 })
	close(hold)
	if r := <-patient; r.status != 200 || r.body != "x" {
		t.Errorf("the one that waits gets %d %q; want 200", r.status, r.body)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, got := range times {
		if got != "29 " && got != "30 " {
			t.Errorf("the origin receives %q; want the route's 30 s, and nothing that a client has sent", times)
		}
	}
	if st := s.g.Stats().Upstreams["main"].Servers[0]; st.Failures != 0 {
		t.Errorf("the server has %d failures; want none", st.Failures)
	}
}

// H44: clients with little time cannot have a server ejected or penalized, whether it ignores
// the time that it receives or responds with 504.
func TestH44_ShortDeadlinesBlameNoServer(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gives-up" {
			w.WriteHeader(504)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}
	a, b := serving(t, "a", slow), serving(t, "b", slow)
	u := upstreamOf(a, b)
	u.TellDeadline, u.Health.Failures, u.ReleaseAbandoned = milliseconds, 2, true
	c := config(u)
	c.Routes[0].Deadline = milliseconds
	s := open(t, c)
	for _, path := range []string{"/hangs", "/gives-up"} {
		for range 20 {
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Request-Timeout", "5")
			if resp := s.do(r); resp.status != 504 {
				t.Fatalf("%s: %d; want 504", path, resp.status)
			}
		}
	}
	for _, st := range s.g.Stats().Upstreams["main"].Servers {
		if st.Failures != 0 || st.Ejected || st.State != "working" {
			t.Errorf("%+v; want no failures", st)
		}
	}
}

// H44: each attempt of a retry receives what is left then.
func TestH44_RetriesAreToldWhatIsLeft(t *testing.T) {
	var mu sync.Mutex
	var times []string
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		times = append(times, r.Header.Get("Grpc-Timeout")+r.Header.Get("X-Request-Timeout"))
		n := len(times)
		mu.Unlock()
		if n == 1 {
			time.Sleep(50 * time.Millisecond)
			w.WriteHeader(503)
		}
	})
	u := upstreamOf(o)
	u.TellDeadline = &weirhttp.DurationField{Name: "X-Request-Timeout", Unit: weirhttp.Microseconds}
	u.Retry.Attempts, u.Retry.Backoff = 2, time.Millisecond
	c := config(u)
	c.Routes[0].Timeout = 20 * time.Second
	s := open(t, c)
	if r := s.get("/a"); r.status != 200 {
		t.Fatalf("got %d", r.status)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 2 || len(times[0]) != 8 || len(times[1]) != 8 || times[1] >= times[0] || times[1] > "19950000" {
		t.Errorf("told %q; want less than 20000000 us, and 50 ms less the second time", times)
	}
}

// H44: what Rewrite and trusted proxies do does not matter; the field never reaches the key or the origin.
func TestH44_TheFieldOfARouteIsNotForwarded(t *testing.T) {
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		for name := range r.Header {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Request-Timeout") {
				t.Errorf("the origin sees %s", name)
			}
		}
	})
	c := config(upstreamOf(o))
	c.Routes[0].Deadline, c.KeepUnderscores = milliseconds, true
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := open(t, c)
	for _, fields := range [][]string{{"X-Request-Timeout", "60000"}, {"X-Request-Timeout", "50000", "X_request_timeout", "1"}, {"X_Request_Timeout", "7"}, {}} {
		if r := s.get("/a", fields...); r.status != 200 {
			t.Errorf("%q: %d; want 200", fields, r.status)
		}
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "POST", s.url+"/a", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(fields); i += 2 {
			r.Header[fields[i]] = []string{fields[i+1]}
		}
		s.do(r)
	}
}

// H44: an Update with another field takes effect.
func TestH44_AnUpdateChangesTheFields(t *testing.T) {
	var mu sync.Mutex
	var got string
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = r.Header.Get("X-Time")
	})
	c := config(upstreamOf(o))
	s := open(t, c)
	s.get("/a")
	c.Upstreams[0].TellDeadline = &weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Seconds}
	if err := s.g.Update(c); err != nil {
		t.Fatal(err)
	}
	s.get("/b")
	mu.Lock()
	defer mu.Unlock()
	if got == "" {
		t.Error("after an Update the origin is not told the time")
	}
}
