package weirotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirtest"
)

// equal compares the series of a metric with want.
func (r *rig) equal(name string, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := series(r.collect()[name]); !slices.Equal(got, want) {
		r.t.Errorf("%s:\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// The metrics recorded for loads and waits, and those read from Stats.
func TestC8_MetricsOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		var l weirtest.Loader[string, string]
		l.On("tea").Return("3")
		l.On("none").Fail(weir.ErrNotFound)
		l.On("down").Fail(errors.New(secret))
		l.On("bad").Panic("oops")
		l.Block("tea")
		g := r.guard(l.Load, weir.Options{Name: "prices", TTL: time.Minute})
		for range 3 {
			go g.Get(t.Context(), "tea")
		}
		synctest.Wait()
		r.equal("weir.running", "weir.guard=prices 1")
		time.Sleep(2 * time.Second)
		l.Release()
		synctest.Wait()
		for _, key := range []string{"tea", "tea", "none", "down", "bad"} {
			g.Get(t.Context(), key)
		}
		synctest.Wait()

		r.equal("weir.load.duration",
			"weir.background=false weir.guard=prices weir.outcome=loaded 1 in 2s",
			"weir.background=false weir.guard=prices weir.outcome=not_found 1 in 0s",
			"error.type=*errors.errorString weir.background=false weir.guard=prices weir.outcome=failed 1 in 0s",
			"error.type=panic weir.background=false weir.guard=prices weir.outcome=failed 1 in 0s")
		r.equal("weir.wait.duration",
			"weir.guard=prices weir.joined=false 2 in 2s", // not-found is a result, not an error
			"weir.guard=prices weir.joined=true 2 in 4s",
			"error.type=*errors.errorString weir.guard=prices weir.joined=false 1 in 0s",
			"error.type=panic weir.guard=prices weir.joined=false 1 in 0s")
		r.equal("weir.avoided",
			"weir.guard=prices weir.kind=hit 2", "weir.guard=prices weir.kind=stale 0", "weir.guard=prices weir.kind=negative 0",
			"weir.guard=prices weir.kind=failure 0", "weir.guard=prices weir.kind=join 2")
		r.equal("weir.refused", "weir.guard=prices weir.reason=limit 0", "weir.guard=prices weir.reason=stuck 0")
		r.equal("weir.failures", "weir.guard=prices weir.kind=failed 2")
		r.equal("weir.loads", "weir.guard=prices 4")
		r.equal("weir.not_found", "weir.guard=prices 1")
		r.equal("weir.panics", "weir.guard=prices 1")
		r.equal("weir.entries", "weir.guard=prices 1")
		r.equal("weir.running", "weir.guard=prices 0")

		if !r.RemoveGuard("prices") || r.RemoveGuard("prices") {
			t.Error("RemoveGuard twice: want true, and then false")
		}
		r.equal("weir.avoided")
	})
}

// The metrics recorded for calls, and those read from the Stats of a Handler.
func TestC8_MetricsOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		h := r.handler(func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(time.Second)
			if req.URL.Path == "/gone" {
				w.WriteHeader(410)
				return
			}
			if req.URL.Path == "/down" {
				w.WriteHeader(503)
				return
			}
			cached(w, req)
		}, weirhttp.Options{Route: "shop"})
		for range 3 {
			go ask(t.Context(), h, "http://shop.example/")
		}
		time.Sleep(2 * time.Second)
		ask(t.Context(), h, "http://shop.example/")
		ask(t.Context(), h, "http://other.example/gone")
		ask(t.Context(), h, "http://other.example/down")
		synctest.Wait()
		r.equal("http.client.request.duration",
			"http.request.method=GET http.response.status_code=200 weir.route=shop 1 in 1s",
			"error.type=410 http.request.method=GET http.response.status_code=410 weir.route=shop 1 in 1s",
			"error.type=503 http.request.method=GET http.response.status_code=503 weir.route=shop 1 in 1s")
		r.equal("weir.wait.duration", "weir.joined=true weir.route=shop 2 in 2s")
		r.equal("weir.requests", "weir.route=shop 6")
		r.equal("weir.loads", "weir.route=shop 3")
		r.equal("weir.failures",
			"weir.kind=no_answer weir.route=shop 0", "weir.kind=broken weir.route=shop 0", "weir.kind=server_error weir.route=shop 1")
		r.equal("weir.stale_on_error", "weir.route=shop 0")
		r.equal("weir.avoided",
			"weir.kind=hit weir.route=shop 1", "weir.kind=stale weir.route=shop 0", "weir.kind=joined weir.route=shop 2",
			"weir.kind=validated weir.route=shop 0", "weir.kind=fleet weir.route=shop 0")
	})
}

// The Middleware records requests by the route that the Gateway reports.
func TestC8_MetricsOfRequests(t *testing.T) {
	r := open(t, weirotel.Options{})
	origin := httptest.NewServer(http.HandlerFunc(cached))
	defer origin.Close()
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "main", Servers: []string{origin.URL}}},
		Routes:    []gateway.Route{{Name: "shop", Path: "/shop"}},
		Observer:  r.HTTP(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	if err := r.AddGateway(g); err != nil {
		t.Fatal(err)
	}
	outer := &noting{ResponseWriter: httptest.NewRecorder()}
	h := r.Middleware("")(g)
	h.ServeHTTP(outer, httptest.NewRequest(http.MethodGet, "http://shop.example/shop", nil))
	if outer.route != "shop" || outer.outcome != weirhttp.OutcomeMiss {
		t.Errorf("the outer handler got %q, %v; want shop, a miss", outer.route, outer.outcome)
	}
	for range 2 {
		ask(t.Context(), h, "http://shop.example/shop")
	}
	ask(t.Context(), h, "http://shop.example/nowhere")

	var got []string
	for _, s := range series(r.collect()["http.server.request.duration"]) {
		got = append(got, s[:strings.LastIndex(s, " in ")])
	}
	const base = "http.request.method=GET http.response.status_code=200 http.route=shop network.protocol.version=1.1 url.scheme=http "
	want := []string{
		base + "weir.outcome=hit 2",
		base + "weir.outcome=miss 1",
		"http.request.method=GET http.response.status_code=404 network.protocol.version=1.1 url.scheme=http 1",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("http.server.request.duration:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	r.equal("http.server.active_requests", "http.request.method=GET url.scheme=http 0")
	r.equal("weir.requests", "weir.route=shop 3")
	if err := r.AddGateway(g); !errors.Is(err, weirotel.ErrTaken) {
		t.Errorf("AddGateway again = %v; want ErrTaken", err)
	}
}

// A noting is a ResponseWriter outside a Middleware; it records the Receipt.
type noting struct {
	http.ResponseWriter
	route   string
	outcome weirhttp.Outcome
}

func (w *noting) SetReceipt(r weirhttp.Receipt) { w.route, w.outcome = r.Route, r.Outcome }

// Handlers that panic, write nothing or fail are recorded.
func TestC8_RequestsThatFail(t *testing.T) {
	const base = "http.request.method=GET http.response.status_code=%d http.route=shop network.protocol.version=1.1 url.scheme=http 1"
	tests := []struct {
		name string
		next http.HandlerFunc
		want string
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, fmt.Sprintf(base, 200)},
		{"early hints", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(201) }, fmt.Sprintf(base, 201)},
		{"502", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "error.type=502 " + fmt.Sprintf(base, 502)},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "error.type=panic http.request.method=GET http.route=shop network.protocol.version=1.1 url.scheme=http 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := open(t, weirotel.Options{})
			func() {
				defer func() {
					if p := recover(); (p != nil) != (test.name == "panic") {
						t.Errorf("recovered %v", p)
					}
				}()
				ask(t.Context(), r.Middleware("shop")(test.next), "http://shop.example/")
			}()
			got := series(r.collect()["http.server.request.duration"])
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want+" in ") {
				t.Errorf("%q; want %q", got, test.want)
			}
			r.equal("http.server.active_requests", "http.request.method=GET url.scheme=http 0")
		})
	}
}

// Over a real connection the ResponseWriter keeps all its optional methods.
func TestC8_MiddlewareKeepsWhatAWriterCanDo(t *testing.T) {
	r := open(t, weirotel.Options{})
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
	})
	mux.HandleFunc("/deadline", func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		conn.Close()
	})
	mux.HandleFunc("/copy", func(w http.ResponseWriter, _ *http.Request) {
		http.ServeContent(w, &http.Request{Method: "GET"}, "x", time.Time{}, strings.NewReader("hello"))
	})
	m := r.Middleware("all")(mux)
	var answering sync.WaitGroup // a client gets a hijacked response before the handler returns
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering.Add(1)
		defer answering.Done()
		m.ServeHTTP(w, r)
	}))
	defer server.Close()
	for path, want := range map[string]int{"/flush": 200, "/deadline": 200, "/hijack": 200, "/copy": 200} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Errorf("GET %s: %v", path, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s = %d; want %d", path, resp.StatusCode, want)
		}
	}
	answering.Wait()
	if got := strings.Join(series(r.collect()["http.server.request.duration"]), "\n"); !strings.Contains(got, "status_code=101") {
		t.Errorf("%s\nwant one hijacked response, 101", got)
	}
}

// Attributes are names, words and numbers from the program, so their number is
// bounded.
func TestC8_NoAttributeHoldsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, weirotel.Options{})
		g := r.guard(func(_ context.Context, key string) (string, error) { return "", coded{key} }, weir.Options{Name: "prices"})
		h := r.handler(cached, weirhttp.Options{Route: "shop"})
		m := r.Middleware("shop")(h)
		for i := range 50 {
			g.Get(t.Context(), fmt.Sprint("secret", i))
			ask(t.Context(), m, fmt.Sprintf("http://secret%d.example/secret?secret=%d", i, i), "Secret: x")
			req := httptest.NewRequest(fmt.Sprint("SECRET", i), "http://shop.example/", nil)
			m.ServeHTTP(httptest.NewRecorder(), req)
		}
		synctest.Wait()
		allowed := []string{
			"weir.guard", "weir.route", "weir.kind", "weir.reason", "weir.outcome", "weir.background", "weir.joined", "error.type",
			"http.request.method", "http.response.status_code", "http.route", "network.protocol.version", "url.scheme",
		}
		for name, metric := range r.collect() {
			all := series(metric)
			if len(all) > 10 {
				t.Errorf("%s has %d series; want at most ten, however many keys there are", name, len(all))
			}
			for _, s := range all {
				for word := range strings.FieldsSeq(s) {
					key, _, ok := strings.Cut(word, "=")
					if ok && !slices.Contains(allowed, key) || strings.Contains(strings.ToLower(word), "secret") {
						t.Errorf("%s has the attribute %s", name, word)
					}
				}
			}
		}
		for _, s := range r.spans.Ended() {
			if strings.Contains(strings.ToLower(text(s)), "secret") && !strings.Contains(text(s), "server.address=secret") {
				t.Errorf("a span holds a key: %s", text(s))
			}
		}
	})
}

// After Close nothing is read, and Close may be called again.
func TestC8_Close(t *testing.T) {
	r := open(t, weirotel.Options{})
	r.guard(func(context.Context, string) (string, error) { return "", nil }, weir.Options{Name: "prices"})
	if len(r.collect()) == 0 {
		t.Fatal("nothing is read before Close")
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if got := r.collect(); len(got) != 0 {
		t.Errorf("%d metrics after Close; want none", len(got))
	}
	bare, err := weirotel.New(weirotel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Close(); err != nil {
		t.Errorf("Close without providers: %v", err)
	}
}

// Names are required, and must be unique.
func TestC8_NamesAreTakenOnce(t *testing.T) {
	r := open(t, weirotel.Options{})
	load := func(context.Context, string) (string, error) { return "", nil }
	g := r.guard(load, weir.Options{Name: "prices"})
	h := r.handler(cached, weirhttp.Options{Route: "shop"})
	nameless := weir.Must(weir.New(load, weir.Options{}))
	defer nameless.Close(context.Background())
	for what, is := range map[string]struct{ err, want error }{
		"the Guard again":  {r.AddGuard(g), weirotel.ErrTaken},
		"no Guard":         {r.AddGuard(nil), weirotel.ErrNil},
		"a nameless Guard": {r.AddGuard(nameless), weirotel.ErrName},
		"the route again":  {r.AddRoute("shop", h), weirotel.ErrTaken},
		"no route":         {r.AddRoute("none", nil), weirotel.ErrNil},
		"a nameless route": {r.AddRoute("", h), weirotel.ErrName},
		"no Gateway":       {r.AddGateway(nil), weirotel.ErrNil},
	} {
		if !errors.Is(is.err, is.want) {
			t.Errorf("adding %s = %v; want %v", what, is.err, is.want)
		}
	}
	if !r.RemoveRoute("shop") || r.RemoveRoute("shop") {
		t.Error("RemoveRoute twice: want true, and then false")
	}
}

// Metrics work without traces, and a Telemetry without both works too.
func TestC8_MetricsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		for _, o := range []weirotel.Options{{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}, {}} {
			tel, err := weirotel.New(o)
			if err != nil {
				t.Fatal(err)
			}
			var carried string
			h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				carried = req.Header.Get("Traceparent")
				time.Sleep(time.Second)
				cached(w, req)
			}), weirhttp.Options{Route: "shop", Observer: tel.HTTP()})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				go ask(t.Context(), tel.Middleware("shop")(h), "http://shop.example/", "Traceparent: "+traceparent)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait() // a sleep alone is not a happens-before edge, and another goroutine writes carried
			if carried != traceparent {
				t.Errorf("the call carries %q; want the client's own", carried)
			}
			h.Close(t.Context())
		}
	})
}

// The metrics of limits, servers, a cache and a gateway equal the Stats.
func TestC8_MetricsOfAGatewaysParts(t *testing.T) {
	r := open(t, weirotel.Options{})
	origin := httptest.NewServer(http.HandlerFunc(cached))
	defer origin.Close()
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "main", Servers: []string{origin.URL}, Adaptive: true}, {Name: "free", Servers: []string{origin.URL}, Concurrency: -1}},
		Routes:    []gateway.Route{{Name: "shop", Path: "/shop", Upstream: "main"}, {Name: "other", Path: "/other", Upstream: "free"}},
		Fleet:     &gateway.Fleet{Config: fleet.Config{Tier: tripped{fleet.NewMemory(fleet.MemoryOptions{})}, Namespace: "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	if err := r.AddGateway(g); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/shop", "/shop", "/shop/2", "/nowhere"} {
		ask(t.Context(), g, "http://shop.example"+path)
	}
	st := g.Stats()
	main := st.Upstreams["main"]
	at := "weir.server=" + origin.URL + " weir.upstream="
	for name, want := range map[string][]string{
		"weir.limit.permits":    {fmt.Sprint("weir.limit=main ", main.Limit.Limit)},
		"weir.limit.in_use":     {"weir.limit=main 0"},
		"weir.limit.queued":     {"weir.limit=main 0"},
		"weir.limit.overloaded": {"weir.limit=main 0"},
		"weir.limit.storm":      {"weir.limit=main 0"},
		"weir.limit.storms":     {"weir.limit=main 0"},
		"weir.limit.late":       {"weir.limit=main 0"},
		"weir.limit.admitted":   {"weir.limit=main 2"},
		"weir.limit.waited":     {"weir.limit=main 0"},
		"weir.limit.latency":    {fmt.Sprintf("weir.limit=main %gs", main.Limit.Latency.Seconds())},
		"weir.limit.baseline":   {fmt.Sprintf("weir.limit=main %gs", main.Limit.Baseline.Seconds())},
		"weir.limit.refused": {
			"weir.limit=main weir.reason=displaced 0", "weir.limit=main weir.reason=too_many 0", "weir.limit=main weir.reason=no_spare 0", "weir.limit=main weir.reason=queue_full 0",
			"weir.limit=main weir.reason=queue_timeout 0", "weir.limit=main weir.reason=rate_exceeded 0", "weir.limit=main weir.reason=wait_too_long 0",
		},
		"weir.upstream.retries":         {"weir.upstream=free 0", "weir.upstream=main 0"},
		"weir.upstream.retries_refused": {"weir.upstream=free 0", "weir.upstream=main 0"},
		"weir.upstream.lookup_failures": {"weir.upstream=free 0", "weir.upstream=main 0"},
		"weir.server.healthy":           {at + "free 1", at + "main 1"},
		"weir.server.ejected":           {at + "free 0", at + "main 0"},
		"weir.server.penalized":         {at + "free 0", at + "main 0"},
		"weir.server.weight":            {at + "free 1", at + "main 1"},
		"weir.server.head":              {at + "free 0s", at + "main 0s"},
		"weir.server.failing":           {at + "free 0", at + "main 0"},
		"weir.server.kept":              {at + "free 0", at + "main 0"},
		"weir.server.moved":             {at + "free 0", at + "main 0"},
		"weir.server.in_flight":         {at + "free 0", at + "main 0"},
		"weir.server.calls":             {at + "free 0", at + "main 2"},
		"weir.server.failures":          {at + "free 0", at + "main 0"},
		"weir.gateway.unrouted":         {"1"},
		"weir.gateway.rejected":         {"0"},
		"weir.cache.size":               {fmt.Sprint(st.Cache.Used)},
		"weir.cache.limit":              {fmt.Sprint(st.Cache.Bytes)},
		"weir.cache.responses":          {"2"},
		"weir.cache.evictions":          {"0"},
		"weir.cache.purges":             {"0"},
		"weir.cache.too_big":            {"0"},
		"weir.fleet.open":               {"1"},
		"weir.fleet.acquires":           {"weir.result=cooling 0", "weir.result=fresh 0", "weir.result=granted 2", "weir.result=held 0"},
		"weir.missed":                   {"weir.route=other 0", "weir.route=shop 2"},
		"weir.unanswered":               {"weir.route=other 0", "weir.route=shop 0"},
		"weir.left_midway":              {"weir.route=other 0", "weir.route=shop 0"},
	} {
		r.equal(name, want...)
	}
}

// A tripped Tier reports that its breaker is open.
type tripped struct{ fleet.Tier }

func (tripped) Abilities() fleet.Abilities {
	return fleet.Abilities{State: func() fleet.BreakerState { return fleet.BreakerState{Open: true} }}
}

// Each limiter is reported once, under its own name. Each Guard in a fleet reports
// the fleet's metrics.
func TestC8_MetricsOfLimitersAndFleetsOfGuards(t *testing.T) {
	r := open(t, weirotel.Options{})
	shared, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 7})
	if err != nil {
		t.Fatal(err)
	}
	named, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 5, Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	rated, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1000})
	if err != nil {
		t.Fatal(err)
	}
	same := func(_ context.Context, key string) (string, error) { return key, nil }
	m := fleet.NewMemory(fleet.MemoryOptions{})
	for name, o := range map[string]weir.Options{
		"a": {Limiter: shared}, "b": {Limiter: limit.All(rated, named)}, "c": {Limiter: shared, Fleet: weir.Fleet{Config: fleet.Config{Tier: m}}},
		"d": {Fleet: weir.Fleet{Config: fleet.Config{Tier: tripped{m}}}},
	} {
		o.Name = name
		r.guard(same, o).Get(t.Context(), "tea")
	}
	r.equal("weir.limit.permits", "weir.limit=a 7", "weir.limit=b:a 5")
	r.equal("weir.limit.admitted", "weir.limit=a 2", "weir.limit=b 1", "weir.limit=b:a 1")
	r.equal("weir.fleet.open", "weir.guard=c 0", "weir.guard=d 1")
	r.equal("weir.calls", "weir.guard=a 1", "weir.guard=b 1", "weir.guard=c 1", "weir.guard=d 1")
}
