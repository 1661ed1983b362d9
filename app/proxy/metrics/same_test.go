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

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
	shared "github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Both adapters report each row of the shared table, with the same series and values.
func TestC8_AdaptersReportTheSameValues(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	defer tier.Close(context.Background())
	g, l := usedGuard(t, tier), usedGateway(t, tier)
	for _, one := range []interface{ Close(context.Context) error }{g, l} { // or a push of the fleet may come between the two reads
		if err := one.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{g}, Gateway: l, Interceptors: []shared.Interceptor{rpc{}}})
	if err != nil {
		t.Fatal(err)
	}
	reader := sdkmetric.NewManualReader()
	tel, err := weirotel.New(weirotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	for _, err := range []error{tel.AddGuard(g), tel.AddGateway(l), tel.AddInterceptor(rpc{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	prom, otel := promSeries(t, c), otelSeries(t, reader)
	nonzero := 0
	for _, m := range shared.All() {
		name := m.Prometheus
		if name == "" {
			name = "weir_" + strings.ReplaceAll(m.Name, ".", "_") + map[string]string{"s": "_seconds", "By": "_bytes"}[m.Unit]
			if m.Kind == shared.Counter {
				name += "_total"
			}
		}
		p, o := prom[name], otel["weir."+m.Name]
		if len(p) == 0 || !maps.Equal(p, o) {
			t.Errorf("%s: %v in %s; want %v as in OpenTelemetry", m.Name, p, name, o)
		}
		for _, v := range p {
			if v != 0 {
				nonzero++
				break
			}
		}
	}
	if nonzero < 12 {
		t.Errorf("%d rows with a value other than 0; the test compares little", nonzero)
	}
}

// usedGuard returns a Guard that has been used, with limiters of two kinds, in a fleet.
func usedGuard(t *testing.T, tier fleet.Tier) *weir.Guard[string, string] {
	t.Helper()
	adaptive, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "shop"}) // as the upstream
	if err != nil {
		t.Fatal(err)
	}
	rate, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 0.001, Burst: 1, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g, err := weir.New(func(_ context.Context, key string) (string, error) { return key, nil }, weir.Options{
		Name: "prices", TTL: time.Minute, Limiter: limit.All(rate, adaptive), Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tea", "coffee"} { // the second is refused
		g.Get(t.Context(), key)
	}
	return g
}

// someKeys returns Claims with a key of an unknown outcome.
func someKeys(t *testing.T) *once.Claims {
	t.Helper()
	folder, err := once.OpenFolder(once.FolderOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close(context.Background()) })
	if _, err := folder.Put(t.Context(), once.Sum("key"), once.Record{State: once.Unknown, Expires: time.Now().Add(time.Hour)}, 0); err != nil {
		t.Fatal(err)
	}
	return once.NewClaims(folder)
}

// searchRoute has the metrics that a route has only with these settings.
var searchRoute = gateway.Route{
	Name: "search", Path: "/search", Upstream: "search", Hedge: &gateway.Hedge{},
	Fallback: &gateway.Fallback{Upstream: "shop", When: []string{gateway.FallbackDown}},
}

// usedGateway returns a gateway in a fleet that has answered requests.
func usedGateway(t *testing.T, tier fleet.Tier) *gateway.Gateway {
	t.Helper()
	origin := httptest.NewServer(cacheable{})
	t.Cleanup(origin.Close)
	other := httptest.NewServer(cacheable{})
	t.Cleanup(other.Close)
	g, err := gateway.New(gateway.Config{
		Cache:     cacheWithFolder(t),
		Claims:    someKeys(t),
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{origin.URL}, Adaptive: true, Cost: weirhttp.Cost{Units: 1}, Budget: anyBudget()}, {Name: "search", Servers: []string{origin.URL, other.URL}}},
		Routes: []gateway.Route{
			{Name: "shop", Path: "/shop", Upstream: "shop"},
			searchRoute,
		},
		Fleet: &gateway.Fleet{Config: fleet.Config{Tier: tier, Namespace: "gateway"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/shop", "/shop/2", "/nowhere"} {
		g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://shop.example"+path, nil))
	}
	if n, err := g.Cache().Invalidate(t.Context(), "http", "shop.example", "/shop/2"); n != 1 || err != nil {
		t.Fatalf("Invalidate = %d, %v; want 1", n, err)
	}
	return g
}

// promSeries returns the values of counters and gauges, by name and labels.
func promSeries(t *testing.T, c prometheus.Collector) map[string]map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]float64{}
	for _, f := range families {
		out[f.GetName()] = map[string]float64{}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" { // an empty value is the same as no label
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			slices.Sort(labels)
			out[f.GetName()][strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// otelSeries returns the values from OpenTelemetry. The attributes lack their prefix
// "weir.".
func otelSeries(t *testing.T, reader sdkmetric.Reader) map[string]map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			out[m.Name] = points(data.DataPoints)
		case metricdata.Gauge[int64]:
			out[m.Name] = points(data.DataPoints)
		case metricdata.Gauge[float64]:
			out[m.Name] = points(data.DataPoints)
		}
	}
	return out
}

func points[N int64 | float64](all []metricdata.DataPoint[N]) map[string]float64 {
	out := map[string]float64{}
	for _, p := range all {
		var labels []string
		for _, kv := range p.Attributes.ToSlice() {
			labels = append(labels, strings.TrimPrefix(string(kv.Key), "weir.")+"="+kv.Value.String())
		}
		slices.Sort(labels)
		out[strings.Join(labels, " ")] = float64(p.Value)
	}
	return out
}

// cacheable answers with a response that can be stored for a minute.
type cacheable struct{}

func (cacheable) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	w.Write([]byte("hello"))
}

// An rpc stands in for a server of gRPC.
type rpc struct{}

func (rpc) Name() string { return "rpc" }
func (rpc) Stats() []inspect.MethodStats {
	return []inspect.MethodStats{{Method: "/shop.v1.Catalog/Get", Calls: 4, Hits: 2, Alone: 1, NotShared: inspect.NotShared{Peer: 1}, Running: 1}}
}
func (rpc) Guards() []weir.Inspector  { return nil }
func (rpc) Limiters() []limit.Limiter { return nil }
