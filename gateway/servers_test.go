package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A server that is killed costs nobody an answer, whatever the method, and gets
// its share again when it is back. Its connections are not kept here: a request
// written to one that is just being lost may have been seen, so that it is
// answered with 502 and not sent again (H15).
func TestH16_AServerIsKilledAndRestarted(t *testing.T) {
	a := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "a")
	})
	b := serving(t, "b", nil)
	u := upstreamOf(a, b)
	u.Health = gateway.Health{Failures: 2, Eject: 20 * time.Millisecond}
	c := config(u)
	var mu sync.Mutex
	var changes []gateway.ServerChange // guarded by mu
	c.ServerChanged = func(c gateway.ServerChange) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, c)
	}
	s := open(t, c)
	ask := func(i int) string {
		t.Helper()
		r := s.request([]string{"GET", "PUT"}[i%2], fmt.Sprintf("/%d", i), nil)
		if i%2 == 1 {
			r = s.request("PUT", fmt.Sprintf("/%d", i), big(1000))
		}
		got := s.do(r)
		if got.err != nil || got.status != 200 {
			t.Fatalf("%s %d = %d %q, %v; want 200", r.Method, i, got.status, got.body, got.err)
		}
		return got.body
	}
	for i := range 20 {
		ask(i)
	}
	a.kill()
	for i := range 50 {
		if got := ask(i); got != "b" {
			t.Errorf("answer of %q while a is down; want b", got)
		}
	}
	if a := s.g.Stats().Upstreams["main"].Servers[0]; a.Left.IsZero() || !a.Returned.IsZero() || !strings.Contains(a.Reason, "2 calls in a row failed") || !strings.Contains(a.Reason, "connection refused") {
		t.Errorf("Stats = %+v; want when it left, and why", a)
	}
	if st := s.g.Stats().Upstreams["main"]; !st.Servers[0].Ejected || st.Retries != 0 {
		t.Errorf("Stats = %+v; want a left alone, and no retries: nothing had left", st)
	}
	before := a.calls.Load()
	a.start(t)
	for i := 0; a.calls.Load() < before+20; i++ {
		ask(i)
	}
	if a := s.g.Stats().Upstreams["main"].Servers[0]; a.Ejected || a.Returned.Before(a.Left) || a.Reason == "" {
		t.Errorf("Stats = %+v; want it to be back, with the time and the reason", a)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(changes) != 2 || changes[0].State != gateway.ServerEjected || changes[0].Failures != 2 || changes[0].For != 20*time.Millisecond ||
		!errors.Is(changes[0].Err, syscall.ECONNREFUSED) || changes[1].State != gateway.ServerReadmitted || changes[1].Upstream != "main" || changes[1].Server != a.url() {
		t.Errorf("ServerChanged got %+v; want the ejection with its reason, and the return", changes)
	}
}

// The one that is slower gets less, over real connections.
func TestH16_TheBusyServerGetsLess(t *testing.T) {
	b := newBarrier(1)
	stuck := serving(t, "stuck", func(w http.ResponseWriter, r *http.Request) { b.wait(r) })
	quick := serving(t, "quick", nil)
	s := open(t, config(upstreamOf(stuck, quick)))
	var clients sync.WaitGroup
	for i := 0; stuck.running.Load() == 0; i++ {
		answered := make(chan struct{})
		clients.Go(func() {
			defer close(answered)
			s.get(fmt.Sprintf("/first/%d", i))
		})
		for waiting := true; waiting && stuck.running.Load() == 0; {
			select {
			case <-answered:
				waiting = false
			default:
				s.turn()
			}
		}
	}
	for i := range 50 {
		s.want(fmt.Sprintf("/%d", i), 200, "quick")
	}
	close(b.release)
	clients.Wait()
	if n := stuck.calls.Load(); n != 1 {
		t.Errorf("%d calls of the busy one; want the 1 that it has", n)
	}
}

// Retries are made under the one permit of their request, and counted.
func TestH15_RetriesHoldOnePermit(t *testing.T) {
	var n atomic.Int64
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	u := upstreamOf(o)
	u.Concurrency = 1
	u.Retry = gateway.Retry{Attempts: 3, Budget: 100, Backoff: time.Millisecond}
	c := config(u)
	c.Routes[0].NoStore, c.Routes[0].Coalesce = true, gateway.CoalesceNone
	s := open(t, c)
	var clients sync.WaitGroup
	var good, sorry atomic.Int64
	for range 6 {
		clients.Go(func() {
			switch got := s.get("/"); got.status {
			case 200:
				good.Add(1)
			case 503:
				sorry.Add(1)
			}
		})
	}
	clients.Wait()
	st := s.g.Stats().Upstreams["main"]
	if good.Load()+sorry.Load() != 6 || good.Load() == 0 || o.peak.Load() != 1 {
		t.Errorf("%d good and %d sorry answers, %d calls at once; want 6, and 1 at once", good.Load(), sorry.Load(), o.peak.Load())
	}
	if calls := o.calls.Load(); uint64(calls) != 6+st.Retries || st.Limit.Admitted != 6 || st.Servers[0].Calls != uint64(calls) {
		t.Errorf("%d calls, Stats = %+v; want 6 permits, and a call for each and each retry", calls, st)
	}
}

// Without Retry a call that broke is the answer, and ran once.
func TestH15_ABrokenCallIsNotRepeated(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/break" {
			panic(http.ErrAbortHandler)
		}
	})
	s := open(t, config(upstreamOf(o)))
	s.want("/", 200, "")
	before := o.calls.Load()
	got := s.get("/break")
	if got.status != 502 || o.calls.Load() != before+1 || !strings.Contains(got.header.Get("Proxy-Status"), "error=") {
		t.Errorf("GET /break = %d, %d calls; want 502 of 1", got.status, o.calls.Load()-before)
	}
	if st := s.g.Stats().Upstreams["main"].Servers[0]; st.Failures != 1 || st.InFlight != 0 {
		t.Errorf("Stats = %+v; want 1 failure and nothing in flight", st)
	}
}

// Each client has a rate of its own, told apart by address or by a field.
func TestH13_RateBy(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a") })
	c := config(upstreamOf(o))
	c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
	rate := func() *weirhttp.ClientLimiterOptions { return &weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour} }
	c.Routes = append(c.Routes,
		gateway.Route{Name: "addr", Path: "/addr", Rate: rate()},
		gateway.Route{Name: "key", Path: "/key", Rate: rate(), RateBy: "header:Api-Key"},
	)
	s := open(t, c)
	for _, row := range []struct {
		path, field, value string
		want               int
	}{
		{"/addr", "X-Forwarded-For", "192.0.2.1", 200},
		{"/addr", "X-Forwarded-For", "192.0.2.1", 429},
		{"/addr", "X-Forwarded-For", "192.0.2.2", 200},
		{"/addr", "X-Forwarded-For", "192.0.2.9, 192.0.2.2", 429},
		{"/key", "Api-Key", "one", 200},
		{"/key", "Api-Key", "one", 429},
		{"/key", "Api-Key", "two", 200},
		{"/key", "X-Forwarded-For", "192.0.2.1", 200},
		{"/key", "X-Forwarded-For", "192.0.2.1", 429},
		{"/", "X-Forwarded-For", "192.0.2.1", 200},
	} {
		got := s.get(row.path, row.field, row.value)
		if got.status != row.want || (got.header.Get("Retry-After") != "") != (row.want == 429) {
			t.Errorf("GET %s with %s: %s = %d; want %d", row.path, row.field, row.value, got.status, row.want)
		}
		if want := `"` + strings.TrimPrefix(row.path, "/") + `";`; row.path != "/" && !strings.HasPrefix(got.header.Get("RateLimit-Policy"), want) {
			t.Errorf("RateLimit-Policy = %q; want the route's name", got.header.Get("RateLimit-Policy"))
		}
	}
}
