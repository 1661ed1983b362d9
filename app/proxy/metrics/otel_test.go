package metrics_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/app/proxy/metrics"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// told maps metrics of the page to their OpenTelemetry names, if those do not follow
// from the Prometheus names. Loads and calls, or Guards and routes, share names there,
// and some names are those of OpenTelemetry's conventions.
var told = map[string]string{
	"weir_guard_load_failures_total":     "weir.failures",
	"weir_guard_load_timeouts_total":     "weir.timeouts",
	"weir_guard_evictions_total":         "weir.evictions",
	"weir_guard_refreshes_skipped_total": "weir.skipped",
	"weir_guard_loads_running":           "weir.running",
	"weir_guard_refreshes_running":       "weir.refreshing",
	"weir_guard_loads_stuck":             "weir.stuck",
	"weir_guard_load_duration_seconds":   "weir.load.duration",
	"weir_guard_wait_duration_seconds":   "weir.wait.duration",
	"weir_http_calls_total":              "weir.loads",
	"weir_http_call_failures_total":      "weir.failures",
	"weir_http_in_flight":                "weir.running",
	"weir_http_request_duration_seconds": "http.server.request.duration",
	"weir_http_call_duration_seconds":    "http.client.request.duration",
	"weir_http_wait_duration_seconds":    "weir.wait.duration",
	"weir_cache_bytes":                   "weir.cache.size",
	"weir_cache_limit_bytes":             "weir.cache.limit",
	"weir_folder_bytes":                  "weir.folder.size",
	"weir_folder_limit_bytes":            "weir.folder.limit",
	"weir_idempotency_bytes":             "weir.idempotency.size",
	"weir_idempotency_limit_bytes":       "weir.idempotency.limit",
	"weir_build_info":                    "", // the resource: service.version
	"weir_ready":                         "weir.ready",
	"weir_connections":                   "weir.connections",
	"weir_responses_total":               "weir.responses",
}

// otelName returns the OpenTelemetry name of a metric of the page.
func otelName(prom string) string {
	if name, ok := told[prom]; ok {
		return name
	}
	name := strings.TrimSuffix(strings.TrimSuffix(prom, "_total"), "_seconds")
	name = strings.TrimPrefix(name, "weir_")
	space, rest, ok := strings.Cut(name, "_")
	if !ok {
		return "weir." + name
	}
	if space == "guard" || space == "http" {
		return "weir." + rest
	}
	return "weir." + space + "." + rest
}

// OTLP alone exports everything that Prometheus gets, and in addition only what
// OpenTelemetry's conventions require.
func TestC8_OpenTelemetryIsToldWhatPrometheusIs(t *testing.T) {
	got := collected(t)
	want := map[string]bool{"http.server.active_requests": true}
	for _, m := range metrics.All() {
		name := otelName(m.Name)
		if want[name] = true; name != "" && !got[name] {
			t.Errorf("%s: there is no %s", m.Name, name)
		}
	}
	for name := range got {
		if !want[name] {
			t.Errorf("%s: Prometheus does not get it", name)
		}
	}
	if len(got) < 60 {
		t.Errorf("got only %d metrics, %v", len(got), slices.Sorted(maps.Keys(got)))
	}
}

// collected returns the names of all metrics of a gateway, a Guard, jobs and a program
// that have been used.
func collected(t *testing.T) map[string]bool {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tel, err := weirotel.New(weirotel.Options{MeterProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	adaptive, err := limit.NewAdaptive(limit.AdaptiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slow := func(context.Context, string) (string, error) { return "x", nil }
	g, err := weir.New(slow, weir.Options{Name: "prices", TTL: time.Minute, Observer: tel.Guards(), Limiter: adaptive,
		Fleet: weir.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{})}}})
	if err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	gw, err := gateway.New(gateway.Config{
		Cache:     cacheWithFolder(t),
		Claims:    someKeys(t),
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Units: 1}, Budget: anyBudget()}, {Name: "search", Servers: []string{origin.URL}}},
		Routes:    []gateway.Route{{Name: "shop", Upstream: "shop"}, searchRoute}, Observer: tel.HTTP(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close(context.Background())
	err = metrics.Observe(provider.Meter("test"), metrics.Options{
		Queues:    func() []jobs.QueueStatus { return []jobs.QueueStatus{{Queue: "reports"}} },
		Responses: func() map[string]tally.Counts { return map[string]tally.Counts{"pages": {}} },
		Program:   func() metrics.Program { return metrics.Program{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{tel.AddGuard(g), tel.AddGateway(gw), tel.AddInterceptor(rpc{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	g.Get(t.Context(), "tea")
	g.Close(context.Background()) // the Observer has been called
	tel.Middleware("")(gw).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://shop.example/", nil))
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			names[m.Name] = true
		}
	}
	return names
}

// OpenTelemetry gets the metrics of the jobs and the program, each number in the right
// place.
func TestC8_WhatOpenTelemetryIsToldOfTheProgram(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	err := metrics.Observe(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), metrics.Options{
		Queues: func() []jobs.QueueStatus {
			return []jobs.QueueStatus{{Queue: "report", Waiting: 1, Taken: 2, Dead: 3, Paused: true, Oldest: 4500 * time.Millisecond}}
		},
		Responses: func() map[string]tally.Counts { return map[string]tally.Counts{"pages": {8, 8, 8, 8, 8, 8, 8}} },
		Program: func() metrics.Program {
			return metrics.Program{Ready: true, Connections: 5, FastRequests: 9, UploadsReset: 11, Reloads: 6, FailedReloads: 7, LastReloadFailed: true}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			got[m.Name] = float64(data.DataPoints[0].Value)
		case metricdata.Gauge[int64]:
			got[m.Name] = float64(data.DataPoints[0].Value)
		case metricdata.Gauge[float64]:
			got[m.Name] = data.DataPoints[0].Value
		}
	}
	want := map[string]float64{
		"weir.jobs.waiting": 1, "weir.jobs.running": 2, "weir.jobs.dead": 3, "weir.jobs.paused": 1, "weir.jobs.oldest": 4.5, "weir.ready": 1,
		"weir.connections": 5, "weir.fast.requests": 9, "weir.uploads.reset": 11, "weir.config.reloads": 6, "weir.config.reload_failures": 7, "weir.config.last_reload_ok": 0,
		"weir.responses": 8,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// cacheWithFolder returns a cache whose folder reports metrics, too.
func cacheWithFolder(t *testing.T) *weirhttp.Cache {
	t.Helper()
	cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.OpenFolder(weirhttp.FolderOptions{Folder: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	return cache
}

// anyBudget returns a budget that is full again before anything can read it, so that two
// readers get the same.
func anyBudget() *gateway.Budget { return &gateway.Budget{Units: limit.MaxUnits, Burst: 100} }
