package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// A ring is gateways of which each forwards to the next, and the last to the first.
type ring struct {
	sites []*site
}

// openRing starts one. scheme is that between them: http, https (HTTP/2), or h2c.
func openRing(t *testing.T, n int, scheme string, change func(*gateway.Config)) ring {
	t.Helper()
	var r ring
	var servers []*httptest.Server
	handlers := make([]http.Handler, n)
	for i := range n {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[i].ServeHTTP(w, r) }))
		switch scheme {
		case "https":
			s.EnableHTTP2 = true
			s.StartTLS()
		case "h2c":
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Config.Protocols.SetHTTP1(true)
			s.Start()
		default:
			s.Start()
		}
		servers = append(servers, s)
	}
	for i, s := range servers {
		next := servers[(i+1)%n]
		u := gateway.Upstream{Name: "next", Servers: []string{next.URL}}
		switch scheme {
		case "https":
			u.TLS = next.Client().Transport.(*http.Transport).TLSClientConfig
		case "h2c":
			u.Servers = []string{"h2c" + strings.TrimPrefix(next.URL, "http")}
		}
		c := config(u)
		c.Routes[0].Cache.TTL = time.Minute
		if change != nil {
			change(&c)
		}
		g, err := gateway.New(c)
		if err != nil {
			t.Fatal(err)
		}
		handlers[i] = g
		client := s.Client()
		t.Cleanup(func() {
			client.CloseIdleConnections()
			s.Close()
			if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
		r.sites = append(r.sites, &site{t: t, g: g, url: s.URL, client: client})
	}
	return r
}

// idle waits until no gateway of the ring holds a permit, which is a little after
// the answer, and checks that each made at most calls.
func (r ring) idle(t *testing.T, calls uint64) {
	t.Helper()
	for i, s := range r.sites {
		s.until("its permits are back", func() bool { return s.g.Stats().Upstreams["next"].Limit.InUse == 0 })
		if l := s.g.Stats().Upstreams["next"].Limit; l.Admitted > calls {
			t.Errorf("gateway %d admitted %d calls; want %d at most", i, l.Admitted, calls)
		}
	}
}

func TestH25_ALoopEndsAtTheGatewayThatItComesBackTo(t *testing.T) {
	for name, n := range map[string]int{"itself": 1, "each other": 2, "a ring": 3} {
		for _, scheme := range []string{"http", "https", "h2c"} {
			t.Run(name+" over "+scheme, func(t *testing.T) {
				for _, method := range []string{"GET", "POST", "HEAD", "PURGE"} {
					r := openRing(t, n, scheme, nil)
					var body io.Reader
					if method == "POST" {
						body = strings.NewReader("x=1")
					}
					got := r.sites[0].do(r.sites[0].request(method, "/page", body))
					if got.err != nil || got.status != http.StatusLoopDetected {
						t.Fatalf("%s = %d %q, %v; want 508", method, got.status, got.body, got.err)
					}
					if ps := got.header.Get("Proxy-Status"); !strings.Contains(ps, "error=proxy_loop_detected") {
						t.Errorf("%s: Proxy-Status = %q", method, ps)
					}
					r.idle(t, 1)
					for i, s := range r.sites {
						if n := s.g.Cache().Stats().Responses; n != 0 {
							t.Errorf("%s: gateway %d has stored %d responses; want none", method, i, n)
						}
					}
				}
			})
		}
	}
}

// Without a look at how far requests have come, the call of each gateway would have
// the other's wait for it.
func TestH25_GatewaysDoNotWaitForEachOther(t *testing.T) {
	for n := 2; n <= 3; n++ {
		r := openRing(t, n, "http", nil)
		for range 20 {
			var all sync.WaitGroup
			for _, s := range r.sites {
				for range 8 {
					all.Go(func() {
						if got := s.get("/page", "Host", "h.test"); got.err != nil || got.status != http.StatusLoopDetected {
							t.Errorf("GET = %d, %v; want 508", got.status, got.err)
						}
					})
				}
			}
			all.Wait()
		}
		r.idle(t, 1<<30)
	}
}

// A loop is found before anything else is: the rates of clients, and what is stored.
func TestH25_ALoopCostsNobodyARateOrAHit(t *testing.T) {
	o := serving(t, "o", nil)
	r := openRing(t, 1, "http", func(c *gateway.Config) {
		c.Routes = append(c.Routes, gateway.Route{Name: "out", Path: "/out", Upstream: "o"})
		c.Routes[0].Upstream = "next"
		c.Upstreams = append(c.Upstreams, gateway.Upstream{Name: "o", Servers: []string{o.url()}})
	})
	s := r.sites[0]
	before := s.g.Stats()
	s.want("/page", 508, "508 Loop Detected")
	after := s.g.Stats()
	if n := after.Rejected - before.Rejected; n != 1 {
		t.Errorf("Rejected has grown by %d; want 1", n)
	}
	if n := after.Routes["all"].Requests - before.Routes["all"].Requests; n != 1 {
		t.Errorf("the route had %d requests; want 1: the second came back", n)
	}
	s.want("/out", 200, "o")
}

// An origin sees the names of all on the way, in order; a chain is no loop.
func TestH25_AChainWorks(t *testing.T) {
	var seen atomic.Pointer[http.Header]
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		seen.Store(&h)
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "o")
	})
	inner := open(t, config(upstreamOf(o)))
	outer := open(t, config(gateway.Upstream{Name: "main", Servers: []string{inner.url}}))
	for i, sent := range []string{"", `cdn.example:80; trace="a,b"`, `cdn.example; broken="`, "weir-00112233445566778899aabbccddeeff"} {
		path := "/" + strings.Repeat("x", i)
		outer.want(path, 200, "o", "CDN-Loop", sent, "Connection", "CDN-Loop")
		got := strings.Join((*seen.Load())["Cdn-Loop"], ", ")
		rest, ok := strings.CutPrefix(got, sent)
		if names := strings.Split(strings.TrimPrefix(rest, ", "), ", "); !ok || len(names) != 2 || names[0] == names[1] {
			t.Errorf("after %q the origin saw CDN-Loop: %q; want two names more", sent, got)
		}
		outer.want(path, 200, "o", "CDN-Loop", "other.example") // stored
	}
	if n := o.calls.Load(); n != 4 {
		t.Errorf("the origin had %d calls; want 4: CDN-Loop is nothing that answers are kept apart by", n)
	}
}

// An Update keeps the name, so that it finds a loop of before.
func TestH25_TheNameOutlivesAnUpdate(t *testing.T) {
	var name atomic.Value
	o := serving(t, "o", func(_ http.ResponseWriter, r *http.Request) { name.Store(r.Header.Get("Cdn-Loop")) })
	c := config(upstreamOf(o))
	s := open(t, c)
	s.want("/", 200, "")
	c.Name = "other"
	s.update(c)
	s.want("/", 508, "", "CDN-Loop", name.Load().(string))
	if other := open(t, c); other.get("/").status != 200 || other.get("/", "CDN-Loop", name.Load().(string)).status != 508 {
		t.Error("two gateways share a name, or one does not know its own")
	}
}

// An origin may send requests through the gateway once more, if it is allowed to.
func TestH25_PassesThatAreAllowed(t *testing.T) {
	var s *site
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/last" {
			io.WriteString(w, "done")
			return
		}
		next := s.get("/last", "CDN-Loop", strings.Join(r.Header["Cdn-Loop"], ", "))
		w.WriteHeader(next.status)
		io.WriteString(w, next.body)
	})
	c := config(upstreamOf(o))
	s = open(t, c)
	s.want("/first", 508, "")
	c.MaxPasses = 2
	s.update(c)
	s.want("/first", 200, "done")
	c.MaxPasses = gateway.MaxPassesBound + 1
	if err := s.g.Update(c); err == nil || !strings.Contains(err.Error(), "MaxPasses") {
		t.Errorf("Update = %v; want a fault of MaxPasses", err)
	}
}

// A client that waits for a request that turns out to be a loop makes its own call.
func TestH25_AMadeUpLoopIsNobodyElsesAnswer(t *testing.T) {
	var name atomic.Value
	release := make(chan struct{})
	var held atomic.Bool
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		name.Store(r.Header.Get("Cdn-Loop"))
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "o")
	})
	inner := open(t, config(upstreamOf(o)))
	inner.want("/name", 200, "o")
	// Between the two, somebody who holds the first request up.
	middle := serving(t, "m", func(w http.ResponseWriter, r *http.Request) {
		if held.CompareAndSwap(false, true) {
			<-release
		}
		got := inner.do(inner.request("GET", r.URL.Path, nil, "CDN-Loop", strings.Join(r.Header["Cdn-Loop"], ", ")))
		for _, k := range []string{"Cache-Control", "Proxy-Status"} {
			w.Header()[k] = got.header[k]
		}
		w.WriteHeader(got.status)
		io.WriteString(w, got.body)
	})
	outer := open(t, config(upstreamOf(middle)))
	var all sync.WaitGroup
	all.Go(func() {
		if got := outer.get("/page", "CDN-Loop", name.Load().(string)); got.status != 508 {
			t.Errorf("the request with a made-up field got %d; want 508", got.status)
		}
	})
	outer.until("the first call is under way", held.Load)
	for range 10 {
		all.Go(func() { outer.want("/page", 200, "o") })
	}
	outer.until("some wait, or have their answer", func() bool { return outer.g.Stats().Routes["all"].Requests >= 11 })
	close(release)
	all.Wait()
	outer.want("/page", 200, "o")
}

func TestH25_NothingTakesTheFieldAway(t *testing.T) {
	o := serving(t, "o", nil)
	for field, change := range map[string]func(*gateway.Route){
		"Routes[0].RemoveRequest[0]":       func(r *gateway.Route) { r.RemoveRequest = []string{"cdn-loop"} },
		`Routes[0].SetRequest["CDN-Loop"]`: func(r *gateway.Route) { r.SetRequest = http.Header{"CDN-Loop": {"x"}} },
		"Routes[0].Cache.IgnoreHeaders[0]": func(r *gateway.Route) { r.Cache.IgnoreHeaders = []string{"CDN-LOOP"} },
	} {
		c := config(upstreamOf(o))
		change(&c.Routes[0])
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v; want a fault of %s", err, field)
		}
	}
}
