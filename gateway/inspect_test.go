package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// TestC5_StatsHaveTheDurationsOfRoutes: as many as requests and calls were
// counted, and what a look at the route's handler says.
func TestC5_StatsHaveTheDurationsOfRoutes(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "a")
	})
	c := config(upstreamOf(o))
	c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api"})
	s := open(t, c)
	for range 5 {
		s.want("/a", 200, "a")
	}
	s.want("/b", 200, "a")
	s.do(s.request("POST", "/c", nil))
	s.until("all is counted", func() bool { // a little after the client has its answer
		st := s.g.Stats()
		return st.Durations["all"].Requests.Count == st.Routes["all"].Requests
	})
	st := s.g.Stats()
	all := st.Durations["all"]
	if all.Calls.Count != st.Routes["all"].Calls || all.Calls.Count != uint64(o.calls.Load()) || all.Waits.Count != 0 {
		t.Errorf("Durations has %d calls and %d waits; want %d and none", all.Calls.Count, all.Waits.Count, o.calls.Load())
	}
	if h, ok := s.g.Handler("all"); !ok || h.CallTimes().Sum != all.Calls.Sum || h.WaitTimes().Count != 0 {
		t.Errorf("Handler = %v; want one with the same durations", ok)
	}
	if _, ok := s.g.Handler("none"); ok {
		t.Error("Handler knows a route that is not there")
	}

	var got struct {
		Durations map[string]map[string]map[string]int64
	}
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int64{"all": int64(all.Calls.Count), "api": 0} {
		one := got.Durations[name]
		if keys := slices.Sorted(maps.Keys(one)); !slices.Equal(keys, []string{"calls", "requests", "waits"}) {
			t.Errorf("durations of %s are %v; want those of calls, requests, waits", name, keys)
		}
		if one["calls"]["count"] != n || n > 0 && one["calls"]["p99_ns"] <= 0 {
			t.Errorf("calls of %s = %v; want %d of them", name, one["calls"], n)
		}
	}
}

func TestO3_AGatewayKnowsItsHotKeys(t *testing.T) {
	o := serving(t, "a", nil)
	c := config(upstreamOf(o))
	c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api", HotKeys: -1})
	s := open(t, c)
	hot := func(route string) string {
		h, ok := s.g.Handler(route)
		if !ok {
			t.Fatalf("no route %s", route)
		}
		if found := h.HotKeys(1).ByTraffic; len(found) > 0 {
			key, _ := found[0].Key.(string)
			return key
		}
		return ""
	}
	s.want("/a", 200, "a")
	s.want("/api/a", 200, "a")
	if got := hot("all"); got != s.url+"/a" {
		t.Errorf("hottest of all = %q; want %s/a", got, s.url)
	}
	if got := hot("api"); got != "" {
		t.Errorf("hottest of api = %q; want none, as it is off", got)
	}
	s.update(c)
	if got := hot("all"); got == "" {
		t.Error("an Update to the same has lost the hot keys")
	}
	c.Routes[0].HotKeys = 10
	s.update(c)
	if got := hot("all"); got != "" {
		t.Errorf("hottest of all = %q after it has changed; want none", got)
	}
	c.Routes[0].HotKeys = weirhttp.MaxHotKeys + 1
	if err := s.g.Update(c); err == nil {
		t.Errorf("Update with %d hot keys = nil; want an error", c.Routes[0].HotKeys)
	}
}

func TestO3_ALimitTellsWhatItKnows(t *testing.T) {
	b := newBarrier(1)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			b.wait(r)
		}
	})
	c := config(upstreamOf(o))
	c.Upstreams[0].Concurrency, c.Upstreams[0].Queue = 1, -1
	s := open(t, c)
	look := func() gateway.LimitStats { return s.g.Stats().Upstreams["main"].Limit }
	var held sync.WaitGroup
	held.Go(func() { s.want("/held", 200, "") })
	<-b.all
	s.want("/full", 503, "")
	s.want("/full", 503, "")
	if got := look(); got.Kind != "fixed" || got.Refused != 2 || !maps.Equal(got.RefusedBy, map[string]uint64{"queue full": 2}) {
		t.Errorf("Limit = %+v; want a fixed one that has refused 2, since the queue is full", got)
	}
	close(b.release)
	held.Wait()

	c.Upstreams[0].Adaptive, c.Upstreams[0].Concurrency = true, 0
	s.update(c)
	if got := look(); got.Kind != "adaptive" || got.Latency != 0 || got.RefusedBy != nil {
		t.Errorf("Limit = %+v; want an adaptive one that knows nothing", got)
	}
	for end := time.Now().Add(patience); look().Latency == 0 && time.Now().Before(end); {
		s.do(s.request("POST", "/a", nil))
	}
	if got := look(); got.Latency <= 0 || got.Baseline <= 0 {
		t.Errorf("Limit = %+v; want latency and baseline", got)
	}

	c.Upstreams[0].Adaptive, c.Upstreams[0].Concurrency = false, -1
	s.update(c)
	if got := look(); got.Kind != "none" || got.Limit != 0 {
		t.Errorf("Limit = %+v; want none", got)
	}
}

// A tracer sets a field of each call to the route's name.
type tracer struct{}

func (tracer) Event(context.Context, weirhttp.Event) {}

func (tracer) CallStart(ctx context.Context, c weirhttp.CallInfo, header http.Header) context.Context {
	header.Set("Traceparent", c.Route)
	return ctx
}

func (tracer) CallEnd(context.Context, weirhttp.CallInfo, weirhttp.CallEnd) {}

func (tracer) Waited(context.Context, weirhttp.Wait) {}

func TestC9_CallsOfAGatewayHaveTheRoute(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Traceparent"))
	})
	c := config(upstreamOf(o))
	c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api"})
	c.Name, c.Observer = "edge", tracer{}
	s := open(t, c)
	s.want("/a", 200, "all")
	s.want("/api/a", 200, "api", "Traceparent", "client")
	if r := s.do(s.request("POST", "/api/a", nil)); r.body != "api" {
		t.Errorf("POST = %q, %v; want api", r.body, r.err)
	}
}

// TestC10_AHitAllocatesNothing, with what a gateway counts, and an Observer; also behind a
// trusted proxy, whose fields are compared.
func TestC10_AHitAllocatesNothing(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		hitAllocatesNothing(t, trusted)
	}
}

func hitAllocatesNothing(t *testing.T, trusted bool) {
	t.Helper()
	o := serving(t, "a", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") })
	c := config(upstreamOf(o))
	c.Observer, c.Routes[0].HotKeys = tracer{}, -1 // hot keys are sampled, and a sample allocates
	r := httptest.NewRequest("GET", "/a", nil)
	if trusted {
		c.TrustedProxies = prefixes("192.0.2.0/24") // of NewRequest's address
		r.Header = http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Forwarded-Host": {"shop.test"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"}}
	}
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
	w := &blank{make(http.Header)}
	if n := testing.AllocsPerRun(1000, func() {
		clear(w.h)
		g.ServeHTTP(w, r)
	}); n != 0 {
		t.Errorf("a hit allocates %v times, trusted %t; want 0", n, trusted)
	}
}
