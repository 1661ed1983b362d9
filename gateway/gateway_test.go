package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway"
)

func TestRoutes(t *testing.T) {
	shop, api := serving(t, "shop", nil), serving(t, "api", nil)
	c := config(upstreamOf(shop))
	c.Upstreams = append(c.Upstreams, gateway.Upstream{Name: "api", Servers: []string{api.url()}})
	c.Routes = []gateway.Route{
		{Name: "api", Path: "/api", Upstream: "api"},
		{Name: "shop", Hosts: []string{"shop.example"}, Upstream: "main"},
	}
	s := open(t, c)
	s.want("/api/x", 200, "api")
	s.want("/api%2Fx", 404, "404 Not Found")
	s.want("/%61pi/x", 200, "api")
	s.want("//api/x", 404, "404 Not Found")
	s.want("/api/x", 200, "shop", "Host", "SHOP.example:8080")
	got := s.get("/")
	if ps := got.header.Get("Proxy-Status"); got.status != 404 || ps != "weir; error=destination_not_found" {
		t.Errorf("GET / = %d with Proxy-Status %q; want 404 and destination_not_found", got.status, ps)
	}
	if got := s.do(s.request("HEAD", "/", nil)); got.status != 404 || got.body != "" {
		t.Errorf("HEAD / = %d %q; want 404 without a body", got.status, got.body)
	}
	st := s.g.Stats()
	if st.Unrouted != 4 || st.Routes["api"].Requests != 2 || st.Routes["shop"].Requests != 1 {
		t.Errorf("Stats = %+v; want 4 without a route, 2 and 1", st)
	}
	if u := st.Upstreams["api"]; len(u.Servers) != 1 || u.Servers[0].URL != api.url() || u.Servers[0].Calls != 2 {
		t.Errorf("Stats of api = %+v; want 2 calls", u)
	}
}

// What is no request for a gateway is counted, and asks nobody.
func TestH18_RejectedIsCounted(t *testing.T) {
	o := serving(t, "a", nil)
	s := open(t, config(upstreamOf(o)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\nConnection: close\r\n\r\n")
	b, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(b), "HTTP/1.1 4") && !strings.HasPrefix(string(b), "HTTP/1.1 5") {
		t.Errorf("CONNECT = %q; want a refusal", b)
	}
	if n := s.g.Stats().Rejected; n != 1 || o.calls.Load() != 0 {
		t.Errorf("Rejected = %d, with %d calls; want 1 and none", n, o.calls.Load())
	}
}

func TestMaxBody(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			fmt.Fprint(w, n)
		}
	})
	c := config(upstreamOf(o))
	c.Routes[0].MaxBody = 100_000
	s := open(t, c)
	if got := s.do(s.request("PUT", "/", big(100_000))); got.status != 200 || got.body != "100000" {
		t.Errorf("100000 bytes = %d %q, %v; want 200", got.status, got.body, got.err)
	}
	if got := s.do(s.request("PUT", "/", big(100_001))); got.status != 413 || o.calls.Load() != 1 {
		t.Errorf("100001 bytes = %d, %v; want 413 without a call", got.status, got.err)
	}
	chunked := struct{ io.Reader }{big(100_000)}
	if got := s.do(s.request("PUT", "/", chunked)); got.status != 200 || got.body != "100000" {
		t.Errorf("100000 bytes, chunked = %d %q, %v; want 200", got.status, got.body, got.err)
	}
	chunked = struct{ io.Reader }{big(100_001)}
	if got := s.do(s.request("PUT", "/", chunked)); got.status != 413 {
		t.Errorf("100001 bytes, chunked = %d %q, %v; want 413", got.status, got.body, got.err)
	}
	s.want("/", 200, "0")
	if st := s.g.Stats(); st.Rejected != 1 || st.Routes[c.Routes[0].Name].Requests != 4 {
		t.Errorf("Rejected, Requests = %d, %d; want 1, which was refused at once, and the other 4", st.Rejected, st.Routes[c.Routes[0].Name].Requests)
	}
}

// After Close requests are counted too, though no route gets them.
func TestRejectedAfterClose(t *testing.T) {
	s := open(t, config(upstreamOf(serving(t, "a", nil))))
	s.want("/", 200, "a")
	if err := s.g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.get("/"); got.status != 503 {
		t.Errorf("GET / after Close = %d; want 503", got.status)
	}
	if st := s.g.Stats(); st.Rejected != 1 || st.Routes["all"].Requests > 1 {
		t.Errorf("Stats = %+v; want one rejected", st)
	}
}

func TestExplain(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "kept")
	})
	c := config(upstreamOf(o))
	s := open(t, c)
	s.want("/x", 200, "kept", "Host", "h.test")
	s.stored(1)
	name, e := s.g.Explain(httptest.NewRequest("GET", "http://h.test/x", nil))
	if name != "all" || e.Answer != "hit" || e.Key != "http://h.test/x" {
		t.Errorf("Explain = %q, %+v; want a hit of all", name, e)
	}
	c.Routes[0].Path = "/x"
	s.update(c)
	name, e = s.g.Explain(httptest.NewRequest("GET", "http://h.test/y", nil))
	if name != "" || e.Answer != "error" || len(e.Steps) != 1 || e.Method != "GET" {
		t.Errorf("Explain = %q, %+v; want no route", name, e)
	}
	if s.g.Cache().Stats().Responses != 1 || o.calls.Load() != 1 {
		t.Error("Explain changed something")
	}
}

// The scheme of the key is what a trusted proxy says, and nobody else.
func TestH9_TheSchemeOfTheKey(t *testing.T) {
	c := config(upstreamOf(serving(t, "a", nil)))
	c.TrustedProxies = prefixes("10.0.0.0/8")
	s := open(t, c)
	for _, row := range []struct {
		from, proto, want string
	}{
		{"10.1.2.3:99", "https", "https"},
		{"10.1.2.3:99", "HTTPS", "https"},
		{"10.1.2.3:99", "http", "http"},
		{"10.1.2.3:99", "http, https", "https"},
		{"10.1.2.3:99", "wss", "http"},
		{"192.0.2.1:99", "https", "http"},
	} {
		r := httptest.NewRequest("GET", "http://h.test/x", nil)
		r.RemoteAddr = row.from
		r.Header.Set("X-Forwarded-Proto", row.proto)
		if _, e := s.g.Explain(r); e.Key != row.want+"://h.test/x" {
			t.Errorf("key of %q from %s = %q; want %s", row.proto, row.from, e.Key, row.want)
		}
	}
	r := httptest.NewRequest("GET", "https://h.test/x", nil)
	r.Header.Set("X-Forwarded-Proto", "http")
	if _, e := s.g.Explain(r); !strings.HasPrefix(e.Key, "https:") {
		t.Errorf("key over TLS = %q; want https", e.Key)
	}
}

// Observe mode of a route shares nothing, beside one that does.
func TestH22_ObserveIsARoutesSetting(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
	})
	c := config(upstreamOf(o))
	c.Routes = append(c.Routes, gateway.Route{Name: "watched", Path: "/w", Observe: true})
	s := open(t, c)
	s.want("/", 200, "")
	s.stored(1)
	for range 2 {
		s.want("/", 200, "")
	}
	for range 3 {
		s.want("/w", 200, "")
	}
	st := s.g.Stats()
	if n := o.calls.Load(); n != 4 || st.Routes["watched"].Calls != 3 || st.Routes["all"].Hits != 2 {
		t.Errorf("%d calls, %+v; want 1, and 3 of the one that is watched", n, st.Routes)
	}
}

// Over all servers and routes, as many calls run as the upstream may have, and
// no more.
func TestH14_TheCapOfAnUpstreamIsExact(t *testing.T) {
	b := newBarrier(5)
	var mu sync.Mutex
	running, most := 0, 0
	serve := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		b.wait(r)
		mu.Lock()
		running--
		mu.Unlock()
	}
	c := config(upstreamOf(serving(t, "a", serve), serving(t, "b", serve)))
	c.Upstreams[0].Concurrency = 5
	c.Routes = append(c.Routes, gateway.Route{Name: "other", Path: "/other"})
	s := open(t, c)
	var clients sync.WaitGroup
	for i := range 30 {
		clients.Go(func() { s.want(fmt.Sprintf("/%s%d", []string{"", "other/"}[i%2], i), 200, "") })
	}
	<-b.all // five are there
	for s.g.Stats().Upstreams["main"].Limit.Queued != 25 {
		s.turn()
	}
	st := s.g.Stats().Upstreams["main"]
	if st.Limit.InUse != 5 || st.Servers[0].InFlight+st.Servers[1].InFlight != 5 || st.Limit.Limit != 5 {
		t.Errorf("Stats = %+v; want 5 in use and in flight", st)
	}
	close(b.release)
	clients.Wait()
	if most != 5 {
		t.Errorf("%d calls ran at once; want 5", most)
	}
}

// A route's own cap holds its calls back below the upstream's, and leaves the
// rest of that to others.
func TestH14_TheCapOfARoute(t *testing.T) {
	b := newBarrier(2)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/free" {
			b.wait(r)
		}
	})
	c := config(upstreamOf(o))
	c.Upstreams[0].Concurrency = 3
	c.Routes = append(c.Routes, gateway.Route{Name: "tight", Path: "/tight", Concurrency: 2, Queue: -1})
	s := open(t, c)
	var clients sync.WaitGroup
	for i := range 2 {
		clients.Go(func() { s.want(fmt.Sprintf("/tight/%d", i), 200, "") })
	}
	<-b.all
	got := s.get("/tight/full")
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.header.Get("Proxy-Status"), "connection_limit_reached") {
		t.Errorf("over the cap = %d %v; want 503 with Retry-After and Proxy-Status", got.status, got.header)
	}
	s.want("/free", 200, "") // its permit is back when the answer is there
	if n := s.g.Stats().Upstreams["main"].Limit.InUse; n != 2 {
		t.Errorf("%d permits of the upstream in use; want 2, those of the route", n)
	}
	close(b.release)
	clients.Wait()
}

// The other kinds of limits: none, and one that finds itself.
func TestH14_KindsOfLimits(t *testing.T) {
	o := serving(t, "a", nil)
	for _, u := range []gateway.Upstream{{Concurrency: -1}, {Adaptive: true}, {Adaptive: true, Concurrency: 4}, {}} {
		u.Name, u.Servers = "main", []string{o.url()}
		s := open(t, config(u))
		s.want("/", 200, "a")
		got := s.g.Stats().Upstreams["main"].Limit
		want := 256
		if u.Concurrency < 0 {
			want = 0
		} else if u.Adaptive {
			want = 10
		}
		if u.Concurrency > 0 {
			want = u.Concurrency
		}
		if got.Limit != want {
			t.Errorf("limit with %+v is %d; want %d", u, got.Limit, want)
		}
	}
}

func TestClose(t *testing.T) {
	b := newBarrier(1)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		b.wait(r)
		io.WriteString(w, "late")
	})
	c := config(upstreamOf(o))
	c.Upstreams[0].Health.Path = "/"
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	defer server.Close()
	s := &site{t: t, g: g, url: server.URL, client: server.Client()}
	var clients sync.WaitGroup
	clients.Go(func() { s.want("/running", 200, "late") })
	<-b.all // the check, or the request
	for s.g.Stats().Upstreams["main"].Servers[0].InFlight == 0 {
		s.turn()
	}
	for range 2 {
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	got := s.get("/new")
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("after Close = %d; want 503", got.status)
	}
	if err := g.Update(c); !errors.Is(err, gateway.ErrClosed) {
		t.Errorf("Update after Close = %v; want ErrClosed", err)
	}
	close(b.release)
	clients.Wait()
}

// Close waits for the checks, of upstreams that are gone too, and no goroutine
// is left: the bubble would tell.
func TestCloseLeavesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	synctest.Test(t, func(t *testing.T) {
		c := config(gateway.Upstream{Name: "main", Servers: []string{dead}, Health: gateway.Health{Path: "/"}})
		c.Upstreams = append(c.Upstreams, gateway.Upstream{Name: "other", Servers: []string{dead}, Health: gateway.Health{Path: "/"}})
		c.Routes[0].Upstream = "main"
		g, err := gateway.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(time.Second)
			if st := g.Stats().Upstreams; !st["main"].Servers[0].Healthy && !st["other"].Servers[0].Healthy {
				break
			}
		}
		if st := g.Stats().Upstreams; st["main"].Servers[0].Healthy || st["other"].Servers[0].Healthy {
			t.Error("a server that is dead is healthy")
		}
		c.Upstreams = c.Upstreams[:1]
		if err := g.Update(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}
