package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A twice is an upstream of three servers over real connections. The first call for a path under
// /slow has no response until the gateway gives it up; the second one has "second".
type twice struct {
	*site
	origins []*origin
	n       int

	mu    sync.Mutex
	calls map[string][]string // guarded by mu: the body and server of each, by path
	gone  atomic.Int64        // first calls that were given up
}

func newTwice(t *testing.T, edit func(*gateway.Config)) *twice {
	t.Helper()
	p := &twice{calls: map[string][]string{}}
	for i := range 3 {
		p.origins = append(p.origins, serving(t, fmt.Sprint(i), func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			p.mu.Lock()
			first := p.calls[r.URL.Path] == nil
			p.calls[r.URL.Path] = append(p.calls[r.URL.Path], fmt.Sprint(string(body), "@", i))
			p.mu.Unlock()
			if !strings.HasPrefix(r.URL.Path, "/slow") {
				io.WriteString(w, "good")
				return
			}
			w.Header().Set("Link", fmt.Sprint("<", first, ">"))
			w.WriteHeader(http.StatusEarlyHints)
			if first {
				<-r.Context().Done()
				p.gone.Add(1)
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, strings.Repeat("second", 10_000))
		}))
	}
	c := config(upstreamOf(p.origins...))
	c.Upstreams[0].Health.Failures = -1
	c.Routes[0].NoStore = true
	c.Routes[0].Timeout = time.Second
	c.Routes[0].Hedge = &gateway.Hedge{After: 50 * time.Millisecond} // more than a fast call takes on a busy machine
	c.Routes[0].Reads = []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"text/plain"}}}
	if edit != nil {
		edit(&c)
	}
	p.site = open(t, c)
	for i := range 500 { // which pay for hedges
		p.want(fmt.Sprint("/fast/", i), 200, "good")
	}
	return p
}

// slow sends slow requests until one has a response of the second call, or until done. Those
// without have paid for the time of the next.
func (p *twice) slow(done func(gateway.HedgeStats) bool, method, body string, fields ...string) (r reply, sent int) {
	p.t.Helper()
	for range 1000 {
		p.n++
		path := fmt.Sprint("/slow/", p.n)
		r = p.do(p.request(method, path, strings.NewReader(body), fields...))
		p.mu.Lock()
		sent = len(p.calls[path])
		for i, got := range p.calls[path] {
			if !strings.HasPrefix(got, body+"@") || i > 0 && got == p.calls[path][0] {
				p.t.Errorf("%s %s: the calls are %q", method, path, p.calls[path])
			}
		}
		p.mu.Unlock()
		if st := p.g.Stats().Hedges["all"]; r.status == 200 || done(st) {
			return r, sent
		}
		if sent > 1 {
			p.t.Fatalf("%s %s: sent %d times, %d %v", method, path, sent, r.status, r.err)
		}
	}
	p.t.Fatalf("no hedge: %+v, limit %+v", p.g.Stats().Hedges["all"], p.g.Stats().Upstreams["main"].Limit)
	return r, sent
}

func never(gateway.HedgeStats) bool { return false }

func TestH41_OverRealConnections(t *testing.T) {
	p := newTwice(t, nil)
	for _, row := range []struct {
		method, body string
		fields       []string
	}{
		{"GET", "", nil},
		{"QUERY", "what", []string{"Content-Type", "text/plain"}},
		{"POST", "what", []string{"Content-Type", "text/plain"}},
	} {
		r, sent := p.slow(never, row.method, row.body, row.fields...)
		if r.err != nil || sent != 2 || r.body != strings.Repeat("second", 10_000) {
			t.Errorf("%s: sent %d times, %d bytes, %v", row.method, sent, len(r.body), r.err)
		}
	}
	if s := p.g.Stats().Hedges["all"]; s.Won < 3 || s.Won > s.Sent || s.Delay != 50*time.Millisecond {
		t.Errorf("Stats = %+v", s)
	}
	// Both permits come back, and no call stays in flight.
	until(t, "the end of all calls", func() bool {
		s := p.g.Stats().Upstreams["main"]
		return s.Limit.InUse == 0 && !slices.ContainsFunc(s.Servers, func(s gateway.ServerStats) bool { return s.InFlight != 0 })
	})
}

// H15: what may not run twice runs once, however long it takes.
func TestH41_AWriteIsSentOnce(t *testing.T) {
	p := newTwice(t, nil)
	p.slow(never, "GET", "") // from now on, hedges are paid for
	before := p.g.Stats().Hedges["all"]
	var running sync.WaitGroup
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		for i := range 5 {
			running.Go(func() {
				path := fmt.Sprintf("/slow/%s/%d", method, i)
				p.do(p.request(method, path, strings.NewReader("{}"), "Content-Type", "application/json"))
				p.mu.Lock()
				defer p.mu.Unlock()
				if n := len(p.calls[path]); n != 1 {
					t.Errorf("%s: sent %d times", method, n)
				}
			})
		}
	}
	running.Wait()
	if s := p.g.Stats().Hedges["all"]; s.Sent != before.Sent || s.Calls != before.Calls {
		t.Errorf("Stats = %+v; want no call that may have a hedge after %+v", s, before)
	}
}

// The 1xx responses to a hedge are not for the client, which has those to the first call.
func TestH41_NoEarlyHintsTwice(t *testing.T) {
	p := newTwice(t, nil)
	for range 1000 {
		p.n++
		path := fmt.Sprint("/slow/", p.n)
		var got []string
		r := p.request("GET", path, nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { got = append(got, h.Get("Link")); return nil },
		}))
		reply := p.do(r)
		if slices.Contains(got, "<false>") || len(got) > 1 {
			t.Fatalf("the client has early hints %q", got)
		}
		if reply.status == 200 {
			return
		}
	}
	t.Fatal("no hedge")
}

// H41: a hedge needs a permit that is free, and none is sent for a while after a limit was lowered.
func TestH41_NoneWithoutAPermit(t *testing.T) {
	busy := func(s gateway.HedgeStats) bool { return s.Refused["busy"] > 0 }
	p := newTwice(t, func(c *gateway.Config) { c.Upstreams[0].Concurrency = 1 })
	if r, sent := p.slow(busy, "GET", ""); sent != 1 || r.status != 504 {
		t.Errorf("without a free permit: sent %d times, %d", sent, r.status)
	}

	var c gateway.Config
	p = newTwice(t, func(own *gateway.Config) { own.Upstreams[0].Concurrency = 1000; c = *own })
	if _, sent := p.slow(never, "GET", ""); sent != 2 {
		t.Errorf("sent %d times", sent)
	}
	c.Upstreams = slices.Clone(c.Upstreams)
	c.Upstreams[0].Concurrency = 100
	p.update(c)
	before := p.g.Stats().Hedges["all"].Sent
	if _, sent := p.slow(busy, "GET", ""); sent != 1 || p.g.Stats().Hedges["all"].Sent != before {
		t.Errorf("after the limit was lowered: sent %d times", sent)
	}
}

// What is known of a route stays when the route is changed.
func TestH41_AReloadForgetsNothing(t *testing.T) {
	var c gateway.Config
	p := newTwice(t, func(own *gateway.Config) { c = *own })
	before := p.g.Stats().Hedges["all"].Calls
	c.Routes = slices.Clone(c.Routes)
	c.Routes[0].Hedge = &gateway.Hedge{Budget: 5, After: time.Second}
	p.update(c)
	if s := p.g.Stats().Hedges["all"]; s.Calls != before || before < 500 || s.Delay != time.Second {
		t.Errorf("Stats = %+v; want %d calls", s, before)
	}
	c.Routes = slices.Clone(c.Routes)
	c.Routes[0].Hedge = nil
	p.update(c)
	if s := p.g.Stats().Hedges; s != nil {
		t.Errorf("without hedges, Stats = %+v", s)
	}
}

func TestH41_ObserveModeCounts(t *testing.T) {
	p := newTwice(t, func(c *gateway.Config) { c.Routes[0].Observe = true })
	for p.g.Stats().Hedges["all"].Observed == 0 {
		p.n++
		path := fmt.Sprint("/slow/", p.n)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // in observe mode, the gateway has none
		p.do(p.request("GET", path, nil).WithContext(ctx))
		cancel()
		p.mu.Lock()
		if n := len(p.calls[path]); n > 1 {
			t.Fatalf("sent %d times", n)
		}
		p.mu.Unlock()
	}
	if s := p.g.Stats().Hedges["all"]; s.Sent != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

func TestH41_Explained(t *testing.T) {
	p := newTwice(t, nil)
	for method, want := range map[string]string{"GET": "about 50ms gets a hedge", "PUT": "it is not a GET"} {
		_, e := p.g.Explain(p.request(method, "/x", nil))
		if steps := strings.Join(e.Steps, " "); !strings.Contains(steps, want) {
			t.Errorf("%s: %q; want %q", method, steps, want)
		}
	}
}

func TestH41_Validated(t *testing.T) {
	for _, row := range []struct {
		edit func(*gateway.Config)
		want []string
	}{
		{func(c *gateway.Config) { c.Routes[0].Hedge = &gateway.Hedge{} }, nil},
		{func(c *gateway.Config) { c.Routes[0].Hedge = &gateway.Hedge{Budget: 10, After: time.Hour} }, nil},
		{func(c *gateway.Config) { c.Routes[0].Hedge = &gateway.Hedge{Budget: 11, After: time.Millisecond} }, []string{"Routes[0].Hedge.Budget", "Routes[0].Hedge.After"}},
		{func(c *gateway.Config) { c.Routes[0].Hedge = &gateway.Hedge{Budget: -1, After: 2 * time.Hour} }, []string{"Routes[0].Hedge.Budget", "Routes[0].Hedge.After"}},
		{func(c *gateway.Config) {
			c.Routes[0].Hedge = &gateway.Hedge{}
			c.Upstreams[0].Cost.Units = 1
		}, []string{"Routes[0].Hedge"}},
	} {
		c := config(gateway.Upstream{Name: "main", Servers: []string{"http://a", "http://b"}})
		row.edit(&c)
		if got := faultsOf(t, c.Validate()); !slices.Equal(got, row.want) {
			t.Errorf("faults of %+v are %q; want %q", c.Routes[0].Hedge, got, row.want)
		}
	}
}
