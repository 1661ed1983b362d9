package weirprom_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// contract lists the names and labels that dashboards and alerts rely on.
const contract = `
weir_guard_avoided_total guard kind=hit|stale|negative|failure|join
weir_guard_cost_total guard kind=spent|hit|join|fleet|refused
weir_guard_calls_total guard
weir_guard_loads_total guard
weir_guard_refreshes_total guard
weir_guard_load_failures_total guard
weir_guard_not_found_total guard
weir_guard_load_timeouts_total guard
weir_guard_panics_total guard
weir_guard_abandoned_total guard
weir_guard_superseded_total guard
weir_guard_stale_on_error_total guard
weir_guard_refused_total guard reason=limit|stuck
weir_guard_refreshes_skipped_total guard
weir_guard_evictions_total guard
weir_guard_entries guard
weir_guard_flights guard
weir_guard_loads_running guard
weir_guard_refreshes_running guard
weir_guard_loads_stuck guard
weir_guard_load_duration_seconds guard
weir_guard_wait_duration_seconds guard
weir_http_requests_total route
weir_http_avoided_total route kind=hit|stale|joined|validated|fleet
weir_http_cost_total route kind=spent|hit|joined|refused|refused_client
weir_http_calls_total route
weir_http_refreshes_total route
weir_http_call_failures_total route kind=no_answer|broken|server_error
weir_http_stale_on_error_total route
weir_http_abandoned_total route
weir_http_deadlines_total route kind=stated|malformed|expired|no_chance
weir_http_refused_total route reason=limit|budget|paused|unreachable|client|client_budget|too_large
weir_http_missed_total route
weir_http_observed_total route kind=hit|joined|compared|differed|queued|refused|refused_client|refused_budget|expired
weir_http_unanswered_total route
weir_http_left_total route
weir_http_left_midway_total route
weir_http_alone_total route reason=apart
weir_http_lagged_total route
weir_http_resumed_total route
weir_http_read_ahead_total route kind=read|no_memory
weir_http_reads_total route kind=looked_up|unshared
weir_http_slow_clients_cut_total route reason=sending|reading|blocked
weir_http_in_flight route
weir_http_abandoned_running route
weir_http_waiting route
weir_http_streams route
weir_http_request_duration_seconds route
weir_http_call_duration_seconds route
weir_http_wait_duration_seconds route
weir_gateway_unrouted_total
weir_gateway_rejected_total
weir_idempotency_calls_total result=claimed|kept|finished|freed|doubted
weir_idempotency_requests_total result=joined|replayed|told_done|told_unknown|other_request|other_credentials|full|store_failed
weir_idempotency_unknown
weir_idempotency_keys
weir_idempotency_keys_limit
weir_idempotency_bytes
weir_idempotency_limit_bytes
weir_cache_bytes
weir_cache_limit_bytes
weir_cache_responses
weir_cache_evictions_total
weir_cache_purges_total
weir_cache_too_big_total
weir_folder_bytes
weir_folder_limit_bytes
weir_folder_responses
weir_folder_hits_total
weir_folder_written_total
weir_folder_evictions_total
weir_folder_dropped_total
weir_folder_errors_total
weir_folder_damaged_total
weir_limit_permits limit
weir_limit_in_use limit
weir_limit_queued limit
weir_limit_overloaded limit
weir_limit_storm limit
weir_limit_storms_total limit
weir_limit_late_total limit
weir_limit_latency_seconds limit
weir_limit_baseline_seconds limit
weir_limit_admitted_total limit
weir_limit_waited_total limit
weir_limit_refused_total limit reason=rate_exceeded|queue_full|queue_timeout|wait_too_long|displaced|no_spare|too_many
weir_server_healthy upstream server
weir_server_ejected upstream server
weir_server_penalized upstream server
weir_server_weight upstream server
weir_server_head_seconds upstream server
weir_server_failing upstream server
weir_server_kept_total upstream server
weir_server_moved_total upstream server
weir_server_in_flight upstream server
weir_server_calls_total upstream server
weir_server_failures_total upstream server
weir_hedges_total route result=won|lost|failed
weir_hedges_refused_total route reason=budget|time|tenant|class|servers|busy
weir_hedges_delay_seconds route
weir_budget_left kind=upstream budget
weir_budget_burst kind=upstream budget
weir_budget_queued kind=upstream budget
weir_budget_waited_total kind=upstream budget
weir_budget_refused_total kind=upstream budget
weir_budget_returned_total kind=upstream budget
weir_budget_owed_total kind=upstream budget
weir_budget_forgiven_total kind=upstream budget
weir_upstream_retries_total upstream
weir_upstream_retries_refused_total upstream
weir_upstream_lookup_failures_total upstream
weir_fallback_requests_total route upstream reason=down|503 kind=sent|refused|observed
weir_fleet_open guard
weir_fleet_acquires_total guard result=fresh|granted|held|cooling
weir_fleet_unavailable_total guard
weir_fleet_lost_leases_total guard
weir_fleet_waits_total guard
weir_fleet_pushes_total guard
weir_fleet_resets_total guard
weir_fleet_pending_invalidations guard
weir_fleet_reads_blocked guard
weir_fleet_queued_invalidations_total guard
weir_fleet_replayed_invalidations_total guard
weir_grpc_calls_total interceptor method
weir_grpc_streams_total interceptor method
weir_grpc_avoided_total interceptor method kind=hit|stale|joined|fleet
weir_grpc_executed_total interceptor method
weir_grpc_failed_total interceptor method
weir_grpc_alone_total interceptor method reason=not_safe|metadata|peer|scope|message|size|call_option|connection|private
weir_grpc_refused_total interceptor method reason=limit|client
weir_grpc_errors_total interceptor method kind=not_found|declined|failure|abandoned
weir_grpc_responses_total interceptor method class=ok|client_error|server_error|left
weir_grpc_executions_total interceptor method
weir_grpc_cost_total interceptor method kind=spent|refused
weir_grpc_running interceptor method
`

// A promise is a line of the contract.
type promise struct {
	labels []string
	values map[string][]string // of the labels with constant values
}

func promises() map[string]promise {
	out := make(map[string]promise)
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		words := strings.Fields(line)
		p := promise{values: make(map[string][]string)}
		for _, word := range words[1:] {
			name, values, ok := strings.Cut(word, "=")
			p.labels = append(p.labels, name)
			if ok {
				p.values[name] = strings.Split(values, "|")
			}
		}
		out[words[0]] = p
	}
	return out
}

// everything returns a Collector over one source of each kind, all used with keys,
// URLs and headers that contain the word secret.
func everything(t *testing.T) *weirprom.Collector {
	t.Helper()
	tier := fleet.WithBreaker(fleet.NewMemory(fleet.MemoryOptions{}), fleet.BreakerOptions{})
	t.Cleanup(func() { tier.Close(context.Background()) })
	adaptive, err := limit.NewAdaptive(limit.AdaptiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := weirprom.Options{
		Guards: []weir.Inspector{
			guard(t, same, weir.Options{Name: "prices", TTL: time.Minute, Limiter: adaptive}),
			guard(t, same, weir.Options{Name: "users", TTL: time.Minute, Limiter: rated(t), Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}}),
		},
		Routes:       map[string]weirprom.Route{"alone": handler(t, weirhttp.Options{})},
		Gateway:      shop(t, tier, origin(t).URL),
		Interceptors: []metrics.Interceptor{&catalog{name: "grpc"}},
	}
	for _, g := range o.Guards {
		g := g.(*weir.Guard[string, string])
		for range 2 {
			g.Get(t.Context(), "secret "+g.Name())
		}
	}
	for range 2 {
		ask(o.Gateway, "http://shop.example/secret?secret=1")
		ask(o.Routes["alone"].(http.Handler), "http://secret.example/secret")
	}
	return collector(t, o)
}

// shop returns a Gateway with two routes to two upstreams.
func shop(t *testing.T, tier fleet.Tier, url string) *gateway.Gateway {
	cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.OpenFolder(weirhttp.FolderOptions{Folder: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	keys, err := once.OpenFolder(once.FolderOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Close(context.Background()) })
	return opened(t, gateway.Config{
		Cache:  cache,
		Claims: once.NewClaims(keys),
		Upstreams: []gateway.Upstream{
			{Name: "front", Servers: []string{url}, Adaptive: true, Cost: weirhttp.Cost{Units: 1}, Budget: &gateway.Budget{Units: 100}},
			{Name: "back", Servers: []string{url, "http://127.0.0.1:1"}},
		},
		Routes: []gateway.Route{
			{Name: "all", Upstream: "front"},
			{Name: "api", Path: "/api", Upstream: "back", Hedge: &gateway.Hedge{}, Fallback: &gateway.Fallback{Upstream: "front", When: []string{"down", "503"}}},
		},
		Fleet: &gateway.Fleet{Config: fleet.Config{Tier: tier, Namespace: "gateway"}},
	})
}

// The descriptions match the contract, and all of its metrics are reported.
func TestC8_EveryNameOfTheContractIsTold(t *testing.T) {
	want := promises()
	for _, m := range weirprom.Metrics() {
		p, ok := want[m.Name]
		if !ok || !slices.Equal(m.Labels, p.labels) || m.Help == "" {
			t.Errorf("Metrics() has %+v; want the labels %v", m, p.labels)
		}
	}
	if n := len(weirprom.Metrics()); n != len(want) {
		t.Errorf("Metrics() has %d; want %d", n, len(want))
	}
	got := gather(t, everything(t))
	for name, p := range want {
		f, ok := got[name]
		if !ok {
			t.Errorf("%s: not reported", name)
			continue
		}
		for label, values := range p.values {
			told := slices.Compact(slices.Sorted(slices.Values(labelled(f, label))))
			slices.Sort(values)
			if !slices.Equal(told, values) {
				t.Errorf("%s{%s}: %q; want %q", name, label, told, values)
			}
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: reported, but not in the contract", name)
		}
	}
}

// Types are those that Metrics returns.
func TestC8_TypesAreThoseOfMetrics(t *testing.T) {
	got := gather(t, everything(t))
	types := map[dto.MetricType]string{dto.MetricType_COUNTER: "counter", dto.MetricType_GAUGE: "gauge", dto.MetricType_HISTOGRAM: "histogram"}
	for _, m := range weirprom.Metrics() {
		if f, ok := got[m.Name]; ok && types[f.GetType()] != m.Type {
			t.Errorf("%s is a %v; want a %s", m.Name, f.GetType(), m.Type)
		}
	}
}

// Label values are names from the configuration, and never sent by clients.
func TestC8_NoLabelHoldsAKey(t *testing.T) {
	allowed := []string{"guard", "route", "limit", "upstream", "server", "kind", "reason", "result", "budget", "interceptor", "method", "class"}
	for name, f := range gather(t, everything(t)) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed, l.GetName()) || strings.Contains(l.GetValue(), "secret") {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

// The number of series does not grow with the number of keys.
func TestC8_SeriesDoNotGrowWithKeys(t *testing.T) {
	g := guard(t, same, weir.Options{Name: "prices", TTL: time.Minute})
	h := handler(t, weirhttp.Options{})
	c := collector(t, weirprom.Options{Guards: []weir.Inspector{g}, Routes: map[string]weirprom.Route{"alone": h}})
	before := testutil.CollectAndCount(c)
	for key := range 100 {
		name := strings.Repeat("x", key)
		g.Get(t.Context(), name)
		ask(h, "http://"+name+"shop.example/"+name)
	}
	if after := testutil.CollectAndCount(c); after != before {
		t.Errorf("%d series after 100 keys, %d before; want no change", after, before)
	}
}

func TestC8_Lint(t *testing.T) {
	problems, err := testutil.CollectAndLint(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The reported routes and upstreams are the current ones.
func TestC8_RoutesComeAndGo(t *testing.T) {
	url := origin(t).URL
	config := func(route, upstream string) gateway.Config {
		return gateway.Config{
			Upstreams: []gateway.Upstream{{Name: upstream, Servers: []string{url}}},
			Routes:    []gateway.Route{{Name: route}},
		}
	}
	g := opened(t, config("old", "main"))
	c := collector(t, weirprom.Options{Gateway: g})
	ask(g, "http://shop.example/")
	if got := labelled(gather(t, c)["weir_http_requests_total"], "route"); !slices.Equal(got, []string{"old"}) {
		t.Errorf("routes %q; want old", got)
	}
	if err := g.Update(config("new", "other")); err != nil {
		t.Fatal(err)
	}
	f := gather(t, c)
	for name, want := range map[string]string{"route": "new", "upstream": "other", "limit": "other"} {
		from := map[string]string{"route": "weir_http_requests_total", "upstream": "weir_server_healthy", "limit": "weir_limit_permits"}[name]
		if got := labelled(f[from], name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s{%s}: %q; want %q", from, name, got, want)
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	gather(t, c) // nothing panics
}

// Of two limiters with the same name, one is reported under another name, instead of
// an error for all metrics.
func TestC8_NamesThatMeet(t *testing.T) {
	named := func(name string) limit.Limiter {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: name, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	shared, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 7})
	if err != nil {
		t.Fatal(err)
	}
	own, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	c := collector(t, weirprom.Options{
		Gateway: opened(t, gateway.Config{
			Upstreams: []gateway.Upstream{{Name: "main", Servers: []string{origin(t).URL}, Concurrency: 5}, {Name: "free", Servers: []string{origin(t).URL}, Concurrency: -1}},
			Routes:    []gateway.Route{{Name: "all", Upstream: "main"}},
		}),
		Routes: map[string]weirprom.Route{"all": handler(t, weirhttp.Options{})},
		Guards: []weir.Inspector{
			guard(t, same, weir.Options{Name: "main", Limiter: shared}),
			guard(t, same, weir.Options{Name: "shares", Limiter: shared}),
			guard(t, same, weir.Options{Name: "two", Limiter: limit.All(rated(t), own, named("main"), named("other"))}),
			guard(t, same, weir.Options{Name: "again", Limiter: named("other")}),
			guard(t, same, weir.Options{Name: "again:other", Limiter: named("other")}),
			guard(t, same, weir.Options{Name: "again:other 2", Limiter: named("again:other")}),
			guard(t, same, weir.Options{Name: "without"}),
			guard(t, same, weir.Options{Name: "elsewhere", Limiter: uncomparable{nil}}),
		},
	})
	const want = `
# HELP weir_limit_permits Calls that may run at once.
# TYPE weir_limit_permits gauge
weir_limit_permits{limit="main"} 5
weir_limit_permits{limit="main:main"} 7
weir_limit_permits{limit="two:main"} 3
weir_limit_permits{limit="two:two"} 9
weir_limit_permits{limit="other"} 3
weir_limit_permits{limit="again:other"} 3
weir_limit_permits{limit="again:other:other"} 3
weir_limit_permits{limit="again:other 2:again:other"} 3
# HELP weir_limit_queued Callers waiting for admission.
# TYPE weir_limit_queued gauge
weir_limit_queued{limit="main"} 0
weir_limit_queued{limit="main:main"} 0
weir_limit_queued{limit="two"} 0
weir_limit_queued{limit="two:main"} 0
weir_limit_queued{limit="two:two"} 0
weir_limit_queued{limit="other"} 0
weir_limit_queued{limit="again:other"} 0
weir_limit_queued{limit="again:other:other"} 0
weir_limit_queued{limit="again:other 2:again:other"} 0
# HELP weir_http_requests_total Requests.
# TYPE weir_http_requests_total counter
weir_http_requests_total{route="all"} 0
weir_http_requests_total{route="handler:all"} 0
`
	if err := compare(c, want); err != nil {
		t.Error(err)
	}
}

func rated(t *testing.T) limit.Limiter {
	l, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An uncomparable is a Limiter of another package that is not comparable.
type uncomparable struct{ list []int }

func (uncomparable) Acquire(context.Context) (limit.Permit, error) { return limit.Permit{}, nil }

// A cache is reported only if there is exactly one.
func TestC8_TheCacheOfHandlers(t *testing.T) {
	cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	h := handler(t, weirhttp.Options{Cache: cache})
	ask(h, "http://shop.example/")
	o := weirprom.Options{Routes: map[string]weirprom.Route{"alone": h}}
	if f := gather(t, collector(t, o)); f["weir_cache_bytes"] != nil {
		t.Errorf("without a Cache: %v; want nothing", f["weir_cache_bytes"])
	}
	o.Cache = cache
	f := gather(t, collector(t, o))
	for name, want := range map[string]float64{
		"weir_cache_responses": 1, "weir_cache_limit_bytes": weirhttp.MinCacheBytes, "weir_cache_bytes": float64(cache.Stats().Used),
	} {
		if got := f[name].GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s = %v; want %v", name, got, want)
		}
	}
	o.Gateway = opened(t, gateway.Config{Upstreams: []gateway.Upstream{{Name: "a", Servers: []string{"http://127.0.0.1:1"}}}})
	if _, err := weirprom.New(o); err == nil {
		t.Error("New(a Gateway, another Cache) = nil; want ErrCache")
	}
}

// Rejections are counted by reason.
func TestC8_RefusalsByReason(t *testing.T) {
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	g := guard(t, same, weir.Options{Name: "prices", Limiter: l})
	p, err := l.TryAcquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release(limit.Success)
	g.Get(t.Context(), "tea")
	for _, m := range gather(t, collector(t, weirprom.Options{Guards: []weir.Inspector{g}}))["weir_limit_refused_total"].GetMetric() {
		want := 0.0
		for _, pair := range m.GetLabel() {
			if pair.GetValue() == "queue_full" {
				want = 1
			}
		}
		if m.GetCounter().GetValue() != want {
			t.Errorf("%v; want %v", m, want)
		}
	}
}

// Failed calls of a route are counted by kind, and stale responses on errors too.
func TestC8_FailuresOfARouteByKind(t *testing.T) {
	failing := false
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case failing && r.URL.Path == "/gone":
			panic(http.ErrAbortHandler)
		case failing:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Cache-Control", "max-age=0, stale-if-error=60")
		}
	}), weirhttp.Options{Cooling: -1}) // so that each failure is a call
	if err != nil {
		t.Fatal(err)
	}
	c := collector(t, weirprom.Options{Routes: map[string]weirprom.Route{"all": h}})
	ask(h, "http://shop.example/")
	failing = true
	for range 3 {
		ask(h, "http://shop.example/") // the stored response
		ask(h, "http://shop.example/other")
	}
	ask(h, "http://shop.example/gone")
	ask(h, "http://shop.example/gone")
	const want = `
# HELP weir_http_call_failures_total Calls without a response (no_answer), those that broke off in the middle of one (broken), and those whose response had a status of 500 or more (server_error). A call has one kind only; calls canceled because no client waited any more have none.
# TYPE weir_http_call_failures_total counter
weir_http_call_failures_total{kind="no_answer",route="all"} 2
weir_http_call_failures_total{kind="broken",route="all"} 0
weir_http_call_failures_total{kind="server_error",route="all"} 6
# HELP weir_http_stale_on_error_total Requests that got a stale response because a call failed, returned an error status, or was refused by a limiter.
# TYPE weir_http_stale_on_error_total counter
weir_http_stale_on_error_total{route="all"} 3
`
	if err := compare(c, want); err != nil {
		t.Error(err)
	}
}
