package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// Configurations come and go while clients ask, and none of them notices.
func TestUpdateUnderTrafficDropsNothing(t *testing.T) {
	a, b, c := serving(t, "a", nil), serving(t, "b", nil), serving(t, "c", nil)
	first := config(upstreamOf(a, b))
	first.Upstreams[0].Health.Path = "/health"
	first.Routes[0].Coalesce, first.Routes[0].NoStore = gateway.CoalesceNone, true
	second := config(upstreamOf(b, c))
	second.Upstreams[0].Concurrency = 7
	second.Upstreams = append(second.Upstreams, gateway.Upstream{Name: "other", Servers: []string{a.url()}})
	second.Routes[0].Upstream = "main"
	second.Routes = append(second.Routes, gateway.Route{Name: "other", Path: "/other", Upstream: "other"})
	s := open(t, first)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var done atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r := s.request([]string{"GET", "PUT"}[n%2], fmt.Sprintf("/%s%d/%d", []string{"", "other/"}[i%2], i, n), nil)
				if got := s.do(r); got.err != nil || got.status != 200 || len(got.body) != 1 {
					t.Errorf("%s %s = %d %q, %v; want 200", r.Method, r.URL.Path, got.status, got.body, got.err)
				}
				done.Add(1)
			}
		})
	}
	for i := range 10 {
		for before := done.Load(); done.Load() < before+50; {
			s.turn()
		}
		s.update([]gateway.Config{second, first}[i%2])
	}
	close(stop)
	clients.Wait()
	if st := s.g.Stats(); len(st.Upstreams) != 1 || len(st.Routes) != 1 || st.Upstreams["main"].Limit.InUse != 0 {
		t.Errorf("Stats = %+v; want those of the last configuration, with nothing in use", st)
	}
}

// What has not changed keeps its counters, even when the same Config is changed
// in place.
func TestUpdateKeepsWhatIsTheSame(t *testing.T) {
	o := serving(t, "a", nil)
	c := config(upstreamOf(o))
	c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api", Methods: []string{"GET", "PUT"}, SetResponse: http.Header{"X-By": {"one"}}})
	s := open(t, c)
	s.want("/", 200, "a")
	s.want("/api", 200, "a")
	s.update(c)
	if st := s.g.Stats(); st.Routes["all"].Requests != 1 || st.Routes["api"].Requests != 1 || st.Upstreams["main"].Servers[0].Calls != 2 {
		t.Errorf("Stats = %+v after an Update to the same; want them kept", st)
	}
	for _, change := range []func(){
		func() { c.Routes[1].Methods[1] = "POST" },
		func() { c.Routes[1].SetResponse.Set("X-By", "two") },
		func() { c.Routes[1].Cache.Vary = []string{"Accept"} },
		func() { c.Routes[1].Cache.Vary[0] = "Accept-Language" },
		func() { c.Routes[1].Rate = &weirhttp.ClientLimiterOptions{Rate: 1000} },
		func() { c.Routes[1].Rate.Rate = 2000 },
		func() { c.Routes[1].Timeout = 1e9 },
	} {
		change()
		s.want("/api", 200, "a")
		s.update(c)
		st := s.g.Stats()
		if st.Routes["all"].Requests != 1 || st.Routes["api"].Requests != 0 {
			t.Errorf("requests of all %d, of api %d; want 1, and 0 after a change", st.Routes["all"].Requests, st.Routes["api"].Requests)
		}
	}
	if got := s.get("/api").header.Get("X-By"); got != "two" {
		t.Errorf("X-By = %q; want two", got)
	}
	c.TrustedProxies = prefixes("127.0.0.0/8")
	s.update(c)
	if n := s.g.Stats().Routes["all"].Requests; n != 0 {
		t.Errorf("requests = %d after a change to all; want 0", n)
	}
}

// The limit of an upstream stays with it, and so do the calls that hold its
// permits, also when the limit changes.
func TestH14_UpdateKeepsTheLimit(t *testing.T) {
	b := newBarrier(2)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" || r.URL.Path == "/held2" {
			b.wait(r)
		}
	})
	c := config(upstreamOf(o))
	c.Upstreams[0].Concurrency, c.Upstreams[0].Queue = 2, -1
	s := open(t, c)
	var clients sync.WaitGroup
	for _, p := range []string{"/held", "/held2"} {
		clients.Go(func() { s.want(p, 200, "") })
	}
	<-b.all
	c.Upstreams[0].Health.Eject = 1e9
	c.Upstreams[0].Servers = append(c.Upstreams[0].Servers, serving(t, "b", nil).url())
	c.Routes[0].Timeout = 1e9
	s.update(c)
	s.want("/full", 503, "")
	if st := s.g.Stats().Upstreams["main"].Limit; st.InUse != 2 || st.Limit != 2 {
		t.Errorf("Limit = %+v; want both permits in use", st)
	}
	c.Upstreams[0].Concurrency = 3
	s.update(c)
	s.want("/free", 200, "")
	if st := s.g.Stats().Upstreams["main"].Limit; st.InUse != 2 || st.Limit != 3 {
		t.Errorf("Limit = %+v; want 3 permits, and the 2 in use that were", st)
	}
	c.Upstreams[0].Concurrency = 1
	s.update(c)
	s.want("/full", 503, "")
	close(b.release)
	clients.Wait()
}

// A route's own cap counts what runs already when it changes, and its clients have
// spent what they had spent, unless something else identifies clients.
func TestH13_UpdateKeepsTheLimitsOfARoute(t *testing.T) {
	two, third := newBarrier(2), newBarrier(1)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/held", "/held2":
			two.wait(r)
		case "/held3":
			third.wait(r)
		}
	})
	c := config(upstreamOf(o))
	c.Routes[0].Concurrency, c.Routes[0].Queue = 2, -1
	s := open(t, c)
	var clients sync.WaitGroup
	for _, p := range []string{"/held", "/held2"} {
		clients.Go(func() { s.want(p, 200, "") })
	}
	<-two.all
	c.Routes[0].Concurrency = 3
	s.update(c)
	clients.Go(func() { s.want("/held3", 200, "") })
	<-third.all
	s.want("/full", 503, "")
	close(two.release)
	close(third.release)
	clients.Wait()

	c.Routes[0].Rate, c.Routes[0].RateBy = &weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Burst: 3}, "header:X-User"
	s.update(c)
	for range 3 {
		s.want("/a", 200, "", "X-User", "ann")
	}
	c.Routes[0].Rate = &weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Burst: 4}
	s.update(c)
	s.want("/a", 200, "", "X-User", "ann")
	s.want("/a", 429, "", "X-User", "ann")
	c.Routes[0].Timeout = 1e9
	s.update(c)
	s.want("/a", 429, "", "X-User", "ann")
	s.want("/a", 200, "", "X-User", "bob")
	c.Routes[0].RateBy = "header:X-Other"
	s.update(c)
	s.want("/a", 200, "", "X-User", "ann")
}

// A server that is taken out, and an upstream that is, end what they have begun.
func TestH16_UpdateLetsRunningRequestsEnd(t *testing.T) {
	b := newBarrier(1)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		b.wait(r)
		io.WriteString(w, "last")
	})
	next := serving(t, "b", nil)
	s := open(t, config(upstreamOf(o)))
	var clients sync.WaitGroup
	clients.Go(func() { s.want("/", 200, "first last", "Cookie", "mine") })
	<-b.all
	s.update(config(upstreamOf(next)))
	other := config(upstreamOf(next))
	other.Upstreams[0].Name = "other"
	s.update(other)
	for range 10 {
		s.want("/new", 200, "b")
	}
	close(b.release)
	clients.Wait()
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls of what was taken out; want 1", n)
	}
}

// With an error everything stays.
func TestUpdateWithAnErrorChangesNothing(t *testing.T) {
	o := serving(t, "a", nil)
	c := config(upstreamOf(o))
	s := open(t, c)
	s.want("/", 200, "a")
	cache, err := weirhttp.NewCache(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	bad := config(upstreamOf(serving(t, "b", nil)))
	bad.Routes[0].Path = "nonsense"
	bad.Cache = cache
	if got := faultsOf(t, s.g.Update(bad)); !slices.Equal(got, []string{"Cache", "Routes[0].Path"}) {
		t.Errorf("Update has faults of %q; want Cache and Routes[0].Path", got)
	}
	s.want("/", 200, "a")
	if st := s.g.Stats(); st.Routes["all"].Requests != 2 || st.Upstreams["main"].Servers[0].Calls != 2 {
		t.Errorf("Stats = %+v; want them kept", st)
	}
	c.Cache = s.g.Cache()
	s.update(c)
}

// The stored answers outlive the routes.
func TestUpdateKeepsTheCache(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "kept")
	})
	c := config(upstreamOf(o))
	s := open(t, c)
	s.want("/x", 200, "kept")
	s.stored(1)
	c.Routes[0].Name = "another"
	c.Upstreams[0].Name = "another"
	s.update(c)
	s.want("/x", 200, "kept")
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}
