package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// withFallback is a route from an upstream "main" to another, "standby".
func withFallback(main, standby gateway.Upstream, when ...string) gateway.Config {
	c := config(main)
	standby.Name = "standby"
	c.Upstreams = append(c.Upstreams, standby)
	c.Routes[0].Upstream = "main"
	c.Routes[0].Fallback = &gateway.Fallback{Upstream: "standby", When: when}
	return c
}

// unreachable is an origin that nothing listens for.
func unreachableOrigin(t *testing.T) *origin {
	o := serving(t, "main", nil)
	o.kill()
	return o
}

func (s *site) wantCalls(o *origin, n int64) {
	s.t.Helper()
	if got := o.calls.Load(); got != n {
		s.t.Errorf("%s was called %d times; want %d", o.name, got, n)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

func TestH40_DownGoesToTheOtherUpstream(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d %v", r.Method, r.URL.Path, len(b), err)
		})
		s := open(withFallback(upstreamOf(unreachableOrigin(t)), upstreamOf(standby), "down"))
		s.want("/a", 200, "GET /a 0 <nil>")
		before := standby.calls.Load()
		for _, body := range []struct {
			name string
			r    io.Reader
			want string
		}{
			{"read ahead", big(1000), "POST /b 1000 <nil>"},
			{"streamed", big(1 << 20), "POST /b 1048576 <nil>"},
			{"of unknown length", struct{ io.Reader }{big(300_000)}, "POST /b 300000 <nil>"},
		} {
			r := s.do(s.request("POST", "/b", body.r))
			if r.status != 200 || r.body != body.want {
				t.Errorf("%s: %d %q; want %q", body.name, r.status, r.body, body.want)
			}
		}
		r := s.get("/c")
		if got := r.header.Get("Proxy-Status"); got != `weir; next-hop="standby"; details="fallback: down"` {
			t.Errorf("Proxy-Status = %q", got)
		}
		if got := r.header.Get("Cache-Status"); !strings.Contains(got, `detail="fallback standby (down)"`) {
			t.Errorf("Cache-Status = %q", got)
		}
		s.wantCalls(standby, before+4)
		n := uint64(standby.calls.Load()) //nolint:gosec // few
		if st := s.g.Stats(); st.Routes["all"].FellBack != n || st.Fallbacks["all"].Sent["down"] != n || st.Routes["all"].Ended() != st.Routes["all"].Requests {
			t.Errorf("Stats = %+v, %+v", st.Routes["all"], st.Fallbacks["all"])
		}
	})
}

func TestH40_NothingIsStoredOrSharedUnlessItMay(t *testing.T) {
	for _, store := range []bool{false, true} {
		t.Run(fmt.Sprint("store=", store), func(t *testing.T) {
			release := make(chan struct{})
			standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
				<-release
				w.Header().Set("Cache-Control", "max-age=600")
				io.WriteString(w, "standby")
			})
			main := unreachableOrigin(t)
			c := withFallback(upstreamOf(main), upstreamOf(standby), "down")
			c.Upstreams[0].Health.Failures = -1
			c.Routes[0].Fallback.Store = store
			s := open(t, c)
			const n = 5
			wait := s.crowd(n, s.same("/a"))
			calls := int64(n)
			if store {
				calls = 1
			}
			s.until("the calls", func() bool { return standby.calls.Load() == calls })
			close(release)
			s.all(wait(), 200, "standby")
			s.want("/a", 200, "standby")
			if !store {
				calls++
			}
			s.wantCalls(standby, calls)
			main.start(t)
			want := "main"
			if store {
				want = "standby" // it is stored for its lifetime
			}
			for n := 0; s.get(fmt.Sprint("/", n)).body != "main"; n++ { // a failed dial stands for some milliseconds
			}
			s.want("/a", 200, want)
		})
	}
}

func TestH40_StatusesGoToTheOtherUpstreamWithinTheBudget(t *testing.T) {
	main := serving(t, "main", status(503))
	standby := serving(t, "standby", nil)
	u := upstreamOf(main)
	u.Retry = gateway.Retry{Attempts: 5, Budget: 100, Backoff: time.Millisecond}
	s := open(t, withFallback(u, upstreamOf(standby), "503", "502"))
	// Of three sends, the last is for the other upstream.
	for i := range 3 {
		if r := s.get(fmt.Sprint("/", i)); r.status != 200 && i == 0 {
			t.Errorf("the first: %d %q", r.status, r.body)
		}
	}
	if m := main.calls.Load(); m > 2*3 {
		t.Errorf("%d calls of 3 requests; want at most two each", m)
	}
	// A request that must not run twice stays.
	before := standby.calls.Load()
	for _, r := range []reply{s.do(s.request("POST", "/p", nil)), s.do(s.request("GET", "/p", big(10)))} {
		if r.status != 503 || r.header.Get("Proxy-Status") != "" {
			t.Errorf("a request that must not run twice: %d, %q", r.status, r.header)
		}
	}
	s.wantCalls(standby, before)
}

func TestH40_TheBudgetBoundsStatuses(t *testing.T) {
	release := make(chan struct{})
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shared" {
			<-release
		}
		http.Error(w, "no", http.StatusServiceUnavailable)
	})
	standby := serving(t, "standby", nil)
	s := open(t, withFallback(upstreamOf(main), upstreamOf(standby), "503"))
	for i := range 20 {
		s.get(fmt.Sprint("/", i))
	}
	if n := standby.calls.Load(); n != 3 {
		t.Errorf("%d of 20 requests went to the other upstream; want 3, the least budget of 10 s", n)
	}
	// Each waiter of a call spends from it.
	t.Run("waiters", func(t *testing.T) {
		s := open(t, withFallback(upstreamOf(main), upstreamOf(standby), "503"))
		before := standby.calls.Load()
		wait := s.crowd(10, s.same("/shared"))
		s.waiting(9)
		close(release)
		ok := 0
		for _, r := range wait() {
			if r.status == 200 {
				ok++
			} else if r.status != 503 {
				t.Errorf("status %d; want 200 or 503", r.status)
			}
		}
		if n := standby.calls.Load() - before; n != 3 || ok != 3 {
			t.Errorf("%d of 10 waiters went to the other upstream, and %d got its response; want 3", n, ok)
		}
		if refused := s.g.Stats().Fallbacks["all"].Refused["503"]; refused != 7 {
			t.Errorf("%d were refused; want 7", refused)
		}
	})
}

func TestH40_ACallThatMayHaveRunStays(t *testing.T) {
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // it has the request, and breaks the connection
	})
	standby := serving(t, "standby", nil)
	u := upstreamOf(main)
	u.Health.Failures = 1
	s := open(t, withFallback(u, upstreamOf(standby), "down", "full", "502", "503", "504"))
	for _, r := range []*http.Request{s.request("POST", "/", big(10)), s.request("POST", "/", nil)} {
		s.wantCalls(standby, 0)
		if r := s.do(r); r.status != 502 {
			t.Errorf("status %d; want 502", r.status)
		}
		s.wantCalls(standby, 0)
		s.update(withFallback(upstreamOf(main), upstreamOf(standby), "502", "full")) // it was ejected
	}
	// One that may run twice goes.
	s.update(withFallback(u, upstreamOf(standby), "502"))
	s.want("/", 200, "standby")
}

// A server that responds is not down, though the others cannot be reached.
func TestH40_AServerThatRespondsIsNotDown(t *testing.T) {
	main, standby := serving(t, "main", status(503)), serving(t, "standby", nil)
	u := upstreamOf(main, unreachableOrigin(t))
	u.Retry = gateway.Retry{Attempts: 3, Budget: 100, Backoff: time.Millisecond}
	s := open(t, withFallback(u, upstreamOf(standby), "down"))
	for i := range 10 {
		if r := s.get(fmt.Sprint("/", i)); r.status < 502 {
			t.Errorf("%d %q; want an error of main", r.status, r.body)
		}
	}
	s.wantCalls(standby, 0)
}

func TestH40_AnEjectedServerIsProbedAndComesBack(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "main")
	})
	for _, servers := range []int{1, 2} {
		broken.Store(true)
		standby := serving(t, "standby", nil)
		u := upstreamOf(main)
		if servers == 2 {
			u = upstreamOf(main, unreachableOrigin(t))
		}
		u.Health = gateway.Health{Failures: 1, Eject: 200 * time.Millisecond}
		s := open(t, withFallback(u, upstreamOf(standby), "down"))
		s.until("it is ejected", func() bool { return s.get("/").body == "standby" })
		before := main.calls.Load()
		if s.want("/", 200, "standby"); main.calls.Load() != before {
			t.Logf("%d servers: a probe was due", servers)
		}
		broken.Store(false)
		s.until("it is used again", func() bool { return s.get("/").body == "main" })
	}
}

func TestH40_WithoutAServerInUseNoneIsTried(t *testing.T) {
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			http.Error(w, "no", 500)
			return
		}
		io.WriteString(w, "main")
	})
	standby := serving(t, "standby", nil)
	u := upstreamOf(main)
	u.Health = gateway.Health{Path: "/health", Interval: 10 * time.Millisecond, Unhealthy: 1}
	s := open(t, withFallback(u, upstreamOf(standby), "down"))
	s.until("it is unhealthy", func() bool { return !s.g.Stats().Upstreams["main"].Servers[0].Healthy })
	for range 5 {
		if r := s.do(s.request("POST", "/", big(10))); r.body != "standby" {
			t.Errorf("%d %q; want the response of standby", r.status, r.body)
		}
	}
	c := withFallback(u, upstreamOf(standby), "502")
	s.update(c)
	s.want("/", 200, "main") // without "down", all are used, as ever
}

func TestH40_FullGoesToTheOtherUpstream(t *testing.T) {
	g := newGathering()
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		io.WriteString(w, "main")
	})
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "standby ", n)
	})
	u := upstreamOf(main)
	u.Concurrency, u.Queue = 1, -1
	s := open(t, withFallback(u, upstreamOf(standby), "full"))
	wait := s.crowd(1, s.same("/a"))
	g.await(t, 1)
	s.want("/b", 200, "standby 0")
	if r := s.do(s.request("POST", "/c", big(100_000))); r.body != "standby 100000" {
		t.Errorf("POST: %d %q", r.status, r.body)
	}
	if n := s.g.Stats().Fallbacks["all"].Sent["full"]; n != 2 {
		t.Errorf("Sent = %d; want 2", n)
	}
	// The limit of the route is not the upstream's.
	c := withFallback(u, upstreamOf(standby), "full")
	c.Routes[0].Concurrency, c.Routes[0].Queue, c.Upstreams[0].Concurrency = 1, -1, 10
	s.update(c)
	wait2 := s.crowd(1, s.same("/d"))
	g.await(t, 1)
	if r := s.get("/e"); r.status != 503 {
		t.Errorf("over the route's limit: %d %q; want 503", r.status, r.body)
	}
	if n := s.g.Stats().Fallbacks["all"].Sent["full"]; n != 2 {
		t.Errorf("Sent = %d; want 2, none of them because of the route's own limit", n)
	}
	g.letGo(2)
	wait()
	wait2()
}

func TestH40_AClientAboveItsShareStays(t *testing.T) {
	g := newGathering()
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		io.WriteString(w, "main")
	})
	standby := serving(t, "standby", nil)
	u := upstreamOf(main)
	u.Concurrency, u.Queue = 1, 4
	c := withFallback(u, upstreamOf(standby), "full")
	c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
	s := open(t, c)
	ask := func(client, path string) *http.Request {
		return s.request("GET", path, nil, "X-Forwarded-For", client)
	}
	first := s.crowd(1, func(int) *http.Request { return ask("192.0.2.1", "/first") })
	g.await(t, 1)
	queued := func(n int) func() bool {
		return func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == n }
	}
	greedy := s.crowd(3, func(i int) *http.Request { return ask("192.0.2.1", fmt.Sprint("/greedy/", i)) })
	s.until("three wait", queued(3))
	other := s.crowd(1, func(int) *http.Request { return ask("192.0.2.2", "/other") })
	s.until("four wait", queued(4))
	if r := s.do(ask("192.0.2.1", "/more")); r.status != 503 {
		t.Errorf("above its share: %d %q; want 503", r.status, r.body)
	}
	g.letGo(5)
	first()
	greedy()
	other()
	s.wantCalls(standby, 0)
}

func TestH40_AStaleResponseComesFirst(t *testing.T) {
	var broken atomic.Bool
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=600")
		io.WriteString(w, "stored")
	})
	standby := serving(t, "standby", nil)
	c := withFallback(upstreamOf(main), upstreamOf(standby), "down", "full", "503")
	c.Routes[0].Cooling = -1
	s := open(t, c)
	s.want("/a", 200, "stored")
	broken.Store(true)
	for range 5 { // more than the budget has
		s.want("/a", 200, "stored")
		if r := s.get("/a", "Range", "bytes=0-9"); r.body != "stored" { // not by a shared call
			t.Errorf("%d %q; want the stored response", r.status, r.body)
		}
	}
	s.wantCalls(standby, 0)
	s.want("/b", 200, "standby") // nothing is stored for it
	main.kill()
	s.want("/a", 200, "stored")
	s.wantCalls(standby, 1)
}

func TestH40_OneStepUnderTheOthersLimits(t *testing.T) {
	g := newGathering()
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		fmt.Fprint(w, r.Host == r.Header.Get("X-Forwarded-Host"), " ", r.URL.RequestURI())
	})
	other := upstreamOf(standby)
	other.Concurrency, other.Queue, other.BasePath, other.Host = 1, 100, "/v2", gateway.ServerHost
	main := upstreamOf(unreachableOrigin(t))
	main.BasePath = "/v1"
	s := open(t, withFallback(main, other, "down"))
	wait := s.crowd(10, s.same("/a?b=c"))
	s.until("nine wait for the other upstream", func() bool { return s.g.Stats().Upstreams["standby"].Limit.Queued == 9 })
	g.letGo(10)
	s.all(wait(), 200, "false /v2/a?b=c")
	if n := standby.peak.Load(); n != 1 {
		t.Errorf("%d concurrent calls; want 1, the other upstream's limit", n)
	}
	// If the other is down as well, that is the end: no fallback of a fallback.
	third := serving(t, "third", nil)
	c := withFallback(main, upstreamOf(unreachableOrigin(t)), "down")
	c.Upstreams = append(c.Upstreams, gateway.Upstream{Name: "third", Servers: []string{third.url()}})
	c.Routes = append(c.Routes, gateway.Route{Name: "second", Path: "/second", Upstream: "standby", Fallback: &gateway.Fallback{Upstream: "third", When: []string{"down"}}})
	s.update(c)
	s.want("/second", 200, "third")
	if r := s.get("/a"); r.status != 502 {
		t.Errorf("both down: %d %q; want 502", r.status, r.body)
	}
	s.wantCalls(third, 1)
}

func TestH40_ObserveModeSaysWhatItWouldDo(t *testing.T) {
	main, standby := serving(t, "main", status(503)), serving(t, "standby", nil)
	c := withFallback(upstreamOf(main), upstreamOf(standby), "down", "full", "503")
	c.Routes[0].Observe = true
	s := open(t, c)
	if r := s.get("/"); r.status != 503 {
		t.Errorf("status %d; want 503, from main", r.status)
	}
	main.kill()
	if r := s.do(s.request("POST", "/", nil)); r.status != 502 {
		t.Errorf("status %d; want 502", r.status)
	}
	s.wantCalls(standby, 0)
	f := s.g.Stats().Fallbacks["all"]
	if f.Would["503"] != 1 || f.Would["down"] != 1 || f.Sent["503"]+f.Sent["down"] != 0 {
		t.Errorf("Fallbacks = %+v; want one 503 and one down that would have gone", f)
	}
}

func TestH40_ExplainNamesTheOtherUpstream(t *testing.T) {
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 500) })
	standby := serving(t, "standby", nil)
	u := upstreamOf(main)
	u.Health = gateway.Health{Path: "/", Interval: 10 * time.Millisecond, Unhealthy: 1}
	s := open(t, withFallback(u, upstreamOf(standby), "down", "503"))
	s.until("it is unhealthy", func() bool { return !s.g.Stats().Upstreams["main"].Servers[0].Healthy })
	_, e := s.g.Explain(s.request("GET", "/", nil))
	steps := strings.Join(e.Steps, " ")
	for _, want := range []string{
		"If upstream main does not respond (down, 503), and no stale response may be used, the request goes to upstream standby, and the response is neither stored nor shared.",
		"No server of upstream main is in use now: the request goes to upstream standby",
	} {
		if !strings.Contains(steps, want) {
			t.Errorf("Steps = %q; want %q", e.Steps, want)
		}
	}
}

func TestH40_ACallThatRunsOnceRunsOnceElsewhere(t *testing.T) {
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done ", r.Header.Get("Idempotency-Key")) })
	main := unreachableOrigin(t)
	c := withFallback(upstreamOf(main), upstreamOf(standby), "down")
	c.Claims = claims(t)
	c.Routes[0].Idempotency = &gateway.Idempotency{Unknown: weirhttp.UnknownRefuse}
	s := open(t, c)
	for range 3 {
		if r := s.do(s.request("POST", "/pay", big(10), "Idempotency-Key", "k1")); r.status != 200 || r.body != "done k1" {
			t.Errorf("%d %q", r.status, r.body)
		}
	}
	s.wantCalls(standby, 1)
	// Also one that main has rejected: its claim is made before the other upstream has it.
	g := newGathering()
	busy := serving(t, "busy", func(w http.ResponseWriter, r *http.Request) { g.hold(r) })
	u := upstreamOf(busy)
	u.Concurrency, u.Queue = 1, -1
	c = withFallback(u, upstreamOf(standby), "full")
	c.Routes[0].Idempotency = &gateway.Idempotency{Unknown: weirhttp.UnknownRefuse}
	s.update(c)
	wait := s.crowd(1, s.same("/hold"))
	g.await(t, 1)
	for range 2 {
		if r := s.do(s.request("POST", "/pay", big(10), "Idempotency-Key", "k2")); r.status != 200 || r.body != "done k2" {
			t.Errorf("%d %q", r.status, r.body)
		}
	}
	s.wantCalls(standby, 2)
	g.letGo(1)
	wait()
}

func TestH40_FaultsOfTheConfiguration(t *testing.T) {
	ok := func() gateway.Config {
		return withFallback(gateway.Upstream{Name: "main", Servers: []string{"http://a:1", "http://b:1"}}, gateway.Upstream{Servers: []string{"http://b:2"}}, "down", "full", "503")
	}
	if err := ok().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*gateway.Config, *gateway.Fallback)
		want   string
	}{
		{func(_ *gateway.Config, f *gateway.Fallback) { f.When = nil }, "Routes[0].Fallback.When"},
		{func(_ *gateway.Config, f *gateway.Fallback) { f.When = []string{"500"} }, "Routes[0].Fallback.When[0]"},
		{func(_ *gateway.Config, f *gateway.Fallback) { f.When = []string{"down", "down"} }, "Routes[0].Fallback.When[1]"},
		{func(_ *gateway.Config, f *gateway.Fallback) { f.Upstream = "nowhere" }, "Routes[0].Fallback.Upstream"},
		{func(_ *gateway.Config, f *gateway.Fallback) { f.Upstream = "main" }, "Routes[0].Fallback.Upstream"},
		{func(c *gateway.Config, _ *gateway.Fallback) { c.Upstreams[1].Servers = []string{"http://B:1/"} }, "http://B:1/ is a server of both"},
		{func(c *gateway.Config, _ *gateway.Fallback) {
			c.Routes[0].Idempotency = &gateway.Idempotency{Unknown: weirhttp.UnknownRefuse}
			c.Upstreams[0].Retry.Methods = []string{"POST"}
		}, "Routes[0].Idempotency.Unknown"},
		{func(c *gateway.Config, _ *gateway.Fallback) {
			c.Routes[0].Idempotency = &gateway.Idempotency{Unknown: weirhttp.UnknownRefuse}
			c.Upstreams[1].Retry = gateway.Retry{Attempts: 2, Methods: []string{"POST"}}
		}, "Routes[0].Idempotency.Unknown"},
	} {
		c := ok()
		tc.change(&c, c.Routes[0].Fallback)
		err := c.Validate()
		var e *gateway.OptionError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Validate = %v; want a fault of %s", err, tc.want)
		}
	}
	c := ok() // with a server of both it is right without full
	c.Upstreams[1].Servers, c.Routes[0].Fallback.When = []string{"http://b:1"}, []string{"down"}
	if err := c.Validate(); err != nil {
		t.Errorf("Validate = %v; want nil without full", err)
	}
}

// A client that leaves while its request is on the way to the other upstream ends the call.
func TestH40_AClientThatLeavesEndsTheCall(t *testing.T) {
	ended := make(chan struct{})
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	s := open(t, withFallback(upstreamOf(unreachableOrigin(t)), upstreamOf(standby), "down"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.until("the call", func() bool { return standby.calls.Load() == 1 })
		cancel()
	}()
	if _, err := s.client.Do(s.request("GET", "/", nil).WithContext(ctx)); err == nil {
		t.Error("no error")
	}
	<-ended
	s.until("its permit is back", func() bool { return s.g.Stats().Upstreams["standby"].Limit.InUse == 0 })
}

// claims returns Claims in a folder, which are closed at the end.
func claims(t *testing.T) *once.Claims {
	t.Helper()
	folder, err := once.OpenFolder(once.FolderOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close(context.WithoutCancel(t.Context())) })
	return once.NewClaims(folder)
}
