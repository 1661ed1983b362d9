package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A probe of an ejected server is no reason for an error, if its request may run twice.
func TestH40_AProbeThatFailsIsServedElsewhere(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprint(servers, " servers"), func(t *testing.T) {
			standby := serving(t, "standby", nil)
			main := serving(t, "main", broken)
			u := upstreamOf(main)
			if servers == 2 {
				u = upstreamOf(main, serving(t, "also", broken))
			}
			u.Health = gateway.Health{Failures: 1, Eject: 20 * time.Millisecond}
			s := open(t, withFallback(u, upstreamOf(standby), "down"))
			s.until("it is ejected", func() bool { return s.get("/").body == "standby" })
			before := main.calls.Load()
			for n := 0; main.calls.Load() < before+5 && n < 10_000; n++ {
				if r := s.get(fmt.Sprint("/", n)); r.body != "standby" {
					t.Fatalf("request %d: %d %q; want the response of standby", n, r.status, r.body)
				}
			}
		})
	}
}

// The requests that the budget does not let go elsewhere are counted, also the first of a call.
func TestH40_TheRefusedAreCounted(t *testing.T) {
	main, standby := serving(t, "main", status(503)), serving(t, "standby", nil)
	s := open(t, withFallback(upstreamOf(main), upstreamOf(standby), "503"))
	for i := range 20 {
		s.get(fmt.Sprint("/", i))
	}
	if f := s.g.Stats().Fallbacks["all"]; f.Sent["503"] != 3 || f.Refused["503"] != 17 {
		t.Errorf("Fallbacks = %+v; want 3 sent and 17 refused", f)
	}
}

// The first upstream's permit is back while the other one works.
func TestH40_NoPermitIsHeldForTheOther(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST"} {
		g := newGathering()
		standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) { g.hold(r) })
		s := open(t, withFallback(upstreamOf(unreachableOrigin(t)), upstreamOf(standby), "down"))
		wait := s.crowd(3, func(i int) *http.Request { return s.request(method, fmt.Sprint("/", i), nil) })
		g.await(t, 3)
		st := s.g.Stats()
		if n := st.Upstreams["main"].Limit.InUse; n != 0 {
			t.Errorf("%s: %d permits of main are in use; want 0", method, n)
		}
		if n := st.Upstreams["standby"].Limit.InUse; n != 3 {
			t.Errorf("%s: %d permits of standby are in use; want 3", method, n)
		}
		g.letGo(3)
		wait()
		s.until("all permits are back", func() bool { return s.g.Stats().Upstreams["standby"].Limit.InUse == 0 })
	}
}

// Nothing of a fallback's response is in the store, whatever asks for it and however it could be
// stored.
func TestH40_NothingStaysInTheStore(t *testing.T) {
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=600, stale-if-error=600, stale-while-revalidate=600")
		h.Set("Etag", `"v"`)
		h.Set("Content-Location", r.URL.Path)
		h.Set("Set-Cookie", "who="+r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/404", "/404/":
			http.Error(w, "none", 404)
			return
		}
		if r.Header.Get("If-None-Match") == `"v"` {
			w.WriteHeader(304)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("standby of "+r.Header.Get("Authorization")))
	})
	c := withFallback(upstreamOf(unreachableOrigin(t)), upstreamOf(standby), "down")
	c.Routes[0].Cache = weirhttp.Policy{TTL: time.Hour, ErrorTTL: time.Minute, StaleIfError: time.Hour, StaleWhileRevalidate: time.Hour}
	c.Routes[0].Reads = []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"application/json"}}, {Methods: []string{"QUERY"}}}
	c.Upstreams[0].Health.Failures = -1
	s := open(t, c)
	n := int64(0)
	for _, r := range []*http.Request{
		s.request("GET", "/a", nil), s.request("GET", "/a", nil),
		s.request("HEAD", "/a", nil), s.request("GET", "/a", nil),
		s.request("GET", "/a", nil, "Range", "bytes=0-2"), s.request("GET", "/a", nil, "Range", "bytes=0-2"),
		s.request("GET", "/a", nil, "If-None-Match", `"v"`), s.request("GET", "/a", nil, "If-None-Match", `"v"`),
		s.request("GET", "/a", nil, "Authorization", "alice"), s.request("GET", "/a", nil, "Authorization", "bob"),
		s.request("GET", "/404", nil), s.request("GET", "/404", nil),
		s.request("POST", "/a", big(10), "Content-Type", "application/json"), s.request("POST", "/a", big(10), "Content-Type", "application/json"),
		s.request("QUERY", "/a", big(10), "Content-Type", "text/plain"), s.request("QUERY", "/a", big(10), "Content-Type", "text/plain"),
	} {
		got := s.do(r)
		if n++; standby.calls.Load() != n {
			t.Fatalf("%s %s %q: standby has %d calls; want %d", r.Method, r.URL.Path, r.Header, standby.calls.Load(), n)
		}
		if who := r.Header.Get("Authorization"); r.Method == "GET" && got.status == 200 && got.body != "standby of "+who {
			t.Errorf("%q got %q", who, got.body)
		}
	}
	if st := s.g.Cache().Stats(); st.Responses != 0 {
		t.Errorf("%d responses are stored; want none", st.Responses)
	}
}

// Responses of the first upstream are validated there. A 304 of the other one, to a condition
// that its client has not sent, would be about another response.
func TestH40_TheStoredValidatorStays(t *testing.T) {
	var broken atomic.Bool
	main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Etag", `"main"`)
		w.Header().Set("Cache-Control", "max-age=0")
		io.WriteString(w, "main")
	})
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "standby %q", r.Header["If-None-Match"])
	})
	c := withFallback(upstreamOf(main), upstreamOf(standby), "down", "503")
	s := open(t, c)
	s.want("/a", 200, "main")
	broken.Store(true)
	s.want("/a", 200, "standby []")
	s.want("/a", 200, `standby ["\"x\""]`, "If-None-Match", `"x"`)
	broken.Store(false)
	s.want("/a", 200, "main")
}

// Each limit of the upstream is a reason, none of the client's or the route's is.
func TestH40_WhichLimitsAreAReason(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*gateway.Config)
		method string
		goes   bool
		sse    bool
	}{
		{"budget of the upstream", func(c *gateway.Config) {
			c.Upstreams[0].Cost = weirhttp.Cost{Units: 10}
			c.Upstreams[0].Budget = &gateway.Budget{Units: 10, Per: 24 * time.Hour, Queue: -1}
		}, "POST", true, false},
		{"budget of the route", func(c *gateway.Config) {
			c.Upstreams[0].Cost = weirhttp.Cost{Units: 10}
			c.Routes[0].Budget = &gateway.Budget{Units: 10, Per: 24 * time.Hour, Queue: -1}
		}, "POST", false, false},
		{"budget of the client", func(c *gateway.Config) {
			c.Upstreams[0].Cost = weirhttp.Cost{Units: 10}
			c.Routes[0].ClientBudget = &gateway.ClientBudget{Units: 10, Per: 24 * time.Hour}
		}, "POST", false, false},
		{"streams", func(c *gateway.Config) { c.Upstreams[0].Streams = 1 }, "GET", true, true},
	} {
		for _, method := range []string{tc.method, "GET"} {
			t.Run(tc.name+" "+method, func(t *testing.T) {
				g := newGathering()
				main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) {
					if tc.sse {
						w.Header().Set("Content-Type", "text/event-stream")
						w.WriteHeader(200)
						w.(http.Flusher).Flush()
						g.hold(r)
					}
					io.WriteString(w, "main")
				})
				standby := serving(t, "standby", nil)
				c := withFallback(upstreamOf(main), upstreamOf(standby), "full")
				tc.change(&c)
				s := open(t, c)
				fields := []string{}
				if tc.sse {
					fields = []string{"Accept", "text/event-stream"}
					wait := s.crowd(1, s.same("/first", fields...))
					g.await(t, 1)
					defer wait()
					defer g.letGo(1)
				} else if r := s.do(s.request(method, "/first", nil)); r.body != "main" {
					t.Fatalf("first: %d %q", r.status, r.body)
				}
				r := s.do(s.request(method, "/second", nil, fields...))
				if tc.goes != (r.body == "standby") || !tc.goes && r.status != 503 && r.status != 429 {
					t.Errorf("%d %q; goes elsewhere: want %v", r.status, r.body, tc.goes)
				}
			})
		}
	}
}

// An upgrade and an event stream are served by the other upstream as by the first.
func TestH40_UpgradesAndStreams(t *testing.T) {
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, "echo "+line)
		rw.Flush()
	})
	s := open(t, withFallback(upstreamOf(unreachableOrigin(t)), upstreamOf(standby), "down"))
	if r := s.get("/", "Accept", "text/event-stream"); r.body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
		t.Errorf("%d %q", r.status, r.body)
	}
	conn := s.rawDial()
	defer conn.Close()
	fmt.Fprint(conn, "GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v, %v; want 101", resp, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := br.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	conn.Close()
	s.until("it has ended", func() bool {
		st := s.g.Stats()
		return st.Routes["all"].InFlight == 0 && st.Fallbacks["all"].Calls.InFlight == 0
	})
}

// A reload that removes the fallback and its upstream leaves the requests that are there alone.
func TestH40_AReloadMayRemoveTheOther(t *testing.T) {
	g := newGathering()
	standby := serving(t, "standby", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		io.WriteString(w, "standby")
	})
	u := upstreamOf(unreachableOrigin(t))
	s := open(t, withFallback(u, upstreamOf(standby), "down"))
	wait := s.crowd(5, s.same("/a"))
	g.await(t, 5)
	s.update(config(u))
	if r := s.get("/a"); r.status != 502 {
		t.Errorf("%d %q; want 502", r.status, r.body)
	}
	g.letGo(5)
	s.all(wait(), 200, "standby")
	s.update(withFallback(u, upstreamOf(serving(t, "new", nil)), "down"))
	s.want("/a", 200, "new")
}

// A client pays once for a request that was not sent to the first upstream.
func TestH40_AClientPaysOnce(t *testing.T) {
	for _, limit := range []string{"concurrency", "budget"} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(limit+" "+method, func(t *testing.T) {
				g := newGathering()
				main := serving(t, "main", func(w http.ResponseWriter, r *http.Request) { g.hold(r) })
				c := withFallback(upstreamOf(main), upstreamOf(serving(t, "standby", nil)), "full")
				for i := range c.Upstreams {
					c.Upstreams[i].Cost = weirhttp.Cost{Units: 10}
				}
				if limit == "budget" {
					c.Upstreams[0].Budget = &gateway.Budget{Units: 10, Per: 24 * time.Hour, Queue: -1}
				} else {
					c.Upstreams[0].Concurrency, c.Upstreams[0].Queue = 1, -1
				}
				c.Routes[0].ClientBudget = &gateway.ClientBudget{Units: 15, Per: 24 * time.Hour, By: "header:X-Group"}
				s := open(t, c)
				wait := s.crowd(1, func(int) *http.Request { return s.request("POST", "/first", nil, "X-Group", "other") })
				g.await(t, 1)
				for i := range 20 {
					if r := s.do(s.request(method, "/second", nil, "X-Group", fmt.Sprint(i))); r.status != 200 {
						t.Fatalf("%d %q; want the response of standby", r.status, r.body)
					}
				}
				g.letGo(1)
				wait()
			})
		}
	}
}
