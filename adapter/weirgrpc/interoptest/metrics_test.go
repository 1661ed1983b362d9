package interoptest_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/limit"
)

var (
	_ metrics.Interceptor = (*weirgrpc.Server)(nil)
	_ metrics.Interceptor = (*weirgrpc.Client)(nil)
)

// C8: a Server reports its methods, Guards and limiters to Prometheus and OpenTelemetry,
// and nothing that clients send.
func TestC8_MethodsInPrometheusAndOpenTelemetry(t *testing.T) {
	s, err := weirgrpc.NewServer(weirgrpc.Options{Name: "shop", Methods: map[string]weirgrpc.Policy{
		"/weir.test.Mills/": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Hour}},
		"/weir.test.Mills/Grind": {
			Limiter: limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "stones", Limit: 2})),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	handler := func(_ context.Context, req any) (any, error) { return req, nil }
	secret := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-secret", "secret"))
	for _, ctx := range []context.Context{t.Context(), t.Context(), secret} {
		if _, err := s.UnaryInterceptor()(ctx, structpb.NewStringValue("secret"), &grpc.UnaryServerInfo{FullMethod: "/weir.test.Mills/Get"}, handler); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.UnaryInterceptor()(t.Context(), structpb.NewStringValue("secret"), &grpc.UnaryServerInfo{FullMethod: "/weir.test.Mills/Grind"}, handler); err != nil {
		t.Fatal(err)
	}
	prom, otel := promValues(t, s), otelValues(t, s)
	const get, grind = "interceptor=shop method=/weir.test.Mills/Get", "interceptor=shop method=/weir.test.Mills/Grind"
	for name, v := range map[string]float64{
		"calls " + get: 3, "calls " + grind: 1, "executed " + get: 1,
		"avoided interceptor=shop kind=hit method=/weir.test.Mills/Get": 1,
		"alone " + get + " reason=metadata":                             1, "alone " + grind + " reason=not_safe": 1,
	} {
		of, labels, _ := strings.Cut(name, " ")
		if got := prom["weir_grpc_"+of+"_total "+labels]; got != v {
			t.Errorf("weir_grpc_%s = %v; want %v", name, got, v)
		}
		if got := otel["weir.grpc."+of+" "+labels]; got != v {
			t.Errorf("weir.grpc.%s = %v; want %v", name, got, v)
		}
	}
	for name, v := range map[string]float64{
		"weir_guard_loads_total guard=shop/weir.test.Mills/": 1, "weir_limit_permits limit=stones": 2,
		"weir_limit_permits limit=shop": weirgrpc.DefaultConcurrency, "weir_limit_permits limit=shop streams": weirgrpc.DefaultStreams,
	} {
		if prom[name] != v {
			t.Errorf("%s = %v; want %v", name, prom[name], v)
		}
	}
	for _, series := range slices.Concat(slices.Collect(maps.Keys(prom)), slices.Collect(maps.Keys(otel))) {
		if strings.Contains(series, "secret") {
			t.Errorf("a label has what a client sent: %s", series)
		}
	}
}

// promValues returns the values that s reports to Prometheus, by name and labels.
func promValues(t *testing.T, s *weirgrpc.Server) map[string]float64 {
	t.Helper()
	c, err := weirprom.New(weirprom.Options{Interceptors: []metrics.Interceptor{s}})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// otelValues returns the sums that s reports to OpenTelemetry, in the same form.
func otelValues(t *testing.T, s *weirgrpc.Server) map[string]float64 {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	tel, err := weirotel.New(weirotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	if err := tel.AddInterceptor(s); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		sum, ok := m.Data.(metricdata.Sum[int64])
		if !ok {
			continue
		}
		for _, p := range sum.DataPoints {
			var labels []string
			for _, kv := range p.Attributes.ToSlice() {
				labels = append(labels, strings.TrimPrefix(string(kv.Key), "weir.")+"="+kv.Value.String())
			}
			out[m.Name+" "+strings.Join(labels, " ")] = float64(p.Value)
		}
	}
	return out
}
