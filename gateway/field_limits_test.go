package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// Varnish "serves no stale-if-error".
func TestField_StaleIfErrorIsServed(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, failure := range []string{"500", "503", "broken", "late"} {
			g, ill := newGathering(), atomic.Bool{}
			c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
				if !ill.Load() {
					w.Header().Set("Cache-Control", "max-age=0, stale-if-error=60")
					io.WriteString(w, "good")
					return
				}
				switch g.hold(r); failure {
				case "broken":
					panic(http.ErrAbortHandler)
				case "503":
					w.WriteHeader(503)
				default:
					w.WriteHeader(500)
				}
			}))))
			if failure == "late" {
				c.Routes[0].Timeout = 100 * time.Millisecond
			}
			s := open(c)
			s.want("/", 200, "good")
			s.stored(1)
			ill.Store(true)
			replies := s.crowd(20, s.same("/"))
			if failure != "late" {
				s.waiting(19)
				close(g.let)
			}
			for i, got := range replies() {
				if got.status != 200 || got.body != "good" || !strings.Contains(got.header.Get("Cache-Status"), "fwd=stale") {
					t.Errorf("%s, client %d: %d %q with Cache-Status %q; want what is stale", failure, i, got.status, got.body, got.header.Get("Cache-Status"))
				}
			}
			if n := g.calls.Load(); n < 1 || failure != "late" && n != 1 {
				t.Errorf("%s: %d calls; want 1", failure, n)
			}
		}
	})
}

// As above, where there is no origin any more.
func TestField_StaleIfTheOriginIsGone(t *testing.T) {
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=60")
		io.WriteString(w, "good")
	})
	s := open(t, config(upstreamOf(o)))
	s.want("/", 200, "good")
	s.stored(1)
	o.kill()
	s.all(s.crowd(20, s.same("/"))(), 200, "good")
	s.want("/other", 502, "")
	o.start(t) // to be killed once more at the end
}

// "Nobody has ... stale on overload": with every call taken, what is stored is
// served, and what is not is refused with the time to come back.
func TestField_StaleOnOverload(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/busy":
				g.hold(r)
			case "/strict":
				w.Header().Set("Cache-Control", "max-age=0, must-revalidate, stale-if-error=60")
				w.Header().Set("ETag", `"1"`)
			default:
				w.Header().Set("Cache-Control", "max-age=0, stale-if-error=60")
			}
			io.WriteString(w, "of "+r.URL.Path)
		}))))
		c.Upstreams[0].Concurrency, c.Upstreams[0].Queue = 1, -1
		s := open(c)
		s.want("/kept", 200, "of /kept")
		s.want("/strict", 200, "of /strict")
		s.stored(2)
		busy := s.crowd(1, s.same("/busy"))
		g.await(t, 1)
		s.all(s.crowd(20, s.same("/kept"))(), 200, "of /kept")
		for _, path := range []string{"/cold", "/strict"} {
			for i, got := range s.crowd(20, s.same(path))() {
				if got.status != 503 || got.header.Get("Retry-After") == "" {
					t.Errorf("%s, client %d: %d with Retry-After %q; want 503 with one", path, i, got.status, got.header.Get("Retry-After"))
				}
			}
		}
		if st := s.stats(); st.Shed != 20 || st.Refused != 40 {
			t.Errorf("Stats = %+v; want 20 served stale, 40 refused", st)
		}
		close(g.let)
		s.all(busy(), 200, "of /busy")
	})
}

// "Nobody has ... a limiter behind the coalescer": however many wait for an
// object, it takes one permit; and a hit takes none.
func TestField_TheLimiterStandsBehindTheCoalescer(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			w.Header().Set("Cache-Control", "max-age=60")
			io.WriteString(w, "of "+r.URL.Path)
		}))))
		c.Upstreams[0].Concurrency, c.Upstreams[0].Queue = 1, -1
		s := open(c)
		before := s.g.Stats().Upstreams["main"].Limit.Admitted
		one := s.crowd(30, s.same("/one"))
		s.waiting(29)
		s.want("/two", 503, "")
		g.letGo(1)
		s.all(one(), 200, "of /one")
		s.stored(1)
		s.until("the permit is back", func() bool { return s.g.Stats().Upstreams["main"].Limit.InUse == 0 })
		if n := s.g.Stats().Upstreams["main"].Limit.Admitted - before; n != 1 {
			t.Errorf("%d permits; want 1", n)
		}
		busy := s.crowd(1, s.same("/busy"))
		s.until("the only call is taken", func() bool { return s.g.Stats().Upstreams["main"].Limit.InUse == 1 })
		s.all(s.crowd(30, s.same("/one"))(), 200, "of /one")
		close(g.let)
		s.all(busy(), 200, "of /busy")
	})
}

// "Nobody has refresh-ahead": a hot object is fetched anew before it ends, by
// one call, and nobody waits for that.
func TestField_RefreshAhead(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=100")
			if n := g.hold(r); n == 1 {
				w.Header().Set("Age", "80") // near its end when it comes
				io.WriteString(w, "old")
			} else {
				io.WriteString(w, "new")
			}
		}))))
		c.Routes[0].RefreshAhead = 0.5
		s := open(c)
		first := s.crowd(1, s.same("/"))
		g.await(t, 1)
		g.letGo(1)
		s.all(first(), 200, "old")
		s.stored(1)
		for range 3 {
			s.all(s.crowd(10, s.same("/"))(), 200, "old") // while the origin holds the refresh
		}
		g.await(t, 1)
		if st := s.stats(); st.Refreshes != 1 || st.Waiting != 0 || g.calls.Load() != 2 {
			t.Errorf("Stats = %+v, %d calls; want one refresh, the second call", st, g.calls.Load())
		}
		g.letGo(1)
		s.until("the new one is served", func() bool { return s.get("/").body == "new" })
		if n := g.calls.Load(); n != 2 {
			t.Errorf("%d calls; want 2", n)
		}
	})
}

// ReverseProxy "with an HTTP/2 listener forwards a CONNECT body unframed to a
// pooled HTTP/1.1 upstream": CONNECT is refused, and nothing of it reaches the
// origin, not even a connection.
func TestField_ConnectWithABodyIsRefused(t *testing.T) {
	o := rawServing(t, func(c net.Conn, br *bufio.Reader) { readHead(br) })
	s := openHTTP2(t, config(upstreamOf(serving(t, "o", nil))))
	s.update(o.config())
	for _, host := range []string{"x.test:443", o.addr, strings.TrimPrefix(s.url, "https://")} {
		body, more := io.Pipe()
		var writer sync.WaitGroup
		writer.Go(func() {
			io.WriteString(more, "GET /smuggled HTTP/1.1\r\nHost: x.test\r\n\r\n")
			io.WriteString(more, strings.Repeat("GET /smuggled HTTP/1.1\r\nHost: x.test\r\n\r\n", 1000))
			more.Close()
		})
		r := (&http.Request{
			Method: "CONNECT", URL: &url.URL{Scheme: "https", Host: strings.TrimPrefix(s.url, "https://")}, Host: host,
			Header: http.Header{}, Body: body, ContentLength: -1,
		}).WithContext(t.Context())
		resp, err := s.client.Transport.RoundTrip(r)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err != nil || resp.StatusCode != 501 || resp.ProtoMajor != 2 {
			t.Errorf("CONNECT %s = %v, %v; want 501", host, resp, err)
		}
		body.Close()
		writer.Wait()
	}
	if n := o.accepted.Load(); n != 0 {
		t.Errorf("%d connections at the origin; want none", n)
	}
	if n := s.g.Stats().Rejected; n != 3 {
		t.Errorf("Rejected = %d; want 3", n)
	}
}

// What a body over HTTP/2 looks like makes no difference to the origin: it is
// framed.
func TestField_ABodyOverHTTP2IsFramed(t *testing.T) {
	var paths sync.Map
	s := openHTTP2(t, config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.Method+" "+r.URL.Path, true)
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b))
	}))))
	smuggled := "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x.test\r\n\r\n"
	for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "HEAD", "PURGE"} {
		for _, body := range []io.Reader{strings.NewReader(smuggled), struct{ io.Reader }{strings.NewReader(smuggled)}} {
			if got := s.do(s.request(method, "/x", body)); got.status != 200 || method != "HEAD" && got.body != fmt.Sprint(len(smuggled)) {
				t.Errorf("%s = %d %q, %v; want 200 and %d", method, got.status, got.body, got.err, len(smuggled))
			}
		}
	}
	paths.Range(func(key, _ any) bool {
		if strings.Contains(key.(string), "smuggled") {
			t.Errorf("the origin saw %s", key)
		}
		return true
	})
}

// "Go's transport silently replays a GET whose connection broke: one client GET
// ran three times at the origin." It runs once, on connections that were used
// before, too, and whether one client asks or twenty.
func TestField_AGetWhoseConnectionBrokeRanOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		var mu sync.Mutex
		ran := map[string]int{} // guarded by mu
		o := rawServing(t, func(c net.Conn, br *bufio.Reader) {
			for {
				path := readHead(br)
				mu.Lock()
				ran[path]++
				mu.Unlock()
				if path == "" || strings.HasPrefix(path, "/break") {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok")
			}
		})
		s := open(o.config())
		for i := range 10 {
			s.all(s.crowd(3, s.same("/warm"))(), 200, "ok") // connections to be reused
			path := fmt.Sprint("/break", i)
			ask := s.same(path)
			if i%2 == 1 { // none joins another
				ask = func(j int) *http.Request { return s.request("GET", fmt.Sprint(path, "-", j), nil) }
			}
			for j, got := range s.crowd(20, ask)() {
				if got.status != 502 {
					t.Errorf("%s, client %d: %d %q, %v; want 502", path, j, got.status, got.body, got.err)
				}
			}
		}
		st := s.stats()
		mu.Lock()
		defer mu.Unlock()
		runs := 0
		for path, n := range ran {
			if strings.HasPrefix(path, "/break") {
				runs += n
				if strings.Contains(path, "-") && n != 1 {
					t.Errorf("%s ran %d times; want once", path, n)
				}
			}
		}
		if uint64(runs) != st.Failed || runs > 200 || runs < 105 {
			t.Errorf("%d runs, %d failed calls, 200 clients; want one run for each call", runs, st.Failed)
		}
	})
}

// A client that leaves while its call is queued takes its place in the queue
// along, and the origin does not hear of it.
func TestField_WhoLeavesTheQueueCausesNoCall(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) { g.hold(r) }))))
		c.Upstreams[0].Concurrency = 1
		s := open(c)
		busy := s.crowd(1, s.same("/busy"))
		g.await(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := s.crowd(20, func(i int) *http.Request { return s.request("GET", fmt.Sprint("/", i/2), nil).WithContext(ctx) })
		s.until("all are queued", func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == 10 })
		cancel()
		gone()
		s.until("the queue is empty", func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == 0 })
		close(g.let)
		s.all(busy(), 200, "")
		if n := g.calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}
