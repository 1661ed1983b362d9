package otlp

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	envBoth    = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envMetrics = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	envTraces  = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// C8: without a setting and a variable, both signals go to the documented endpoint, which is
// not the SDK's own https. A variable of one signal does not move the other.
func TestH4_TheEndpointIsTheDocumentedOne(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		o    Options
		want string // as Where says it
	}{
		{"nothing set", nil, Options{Metrics: true, Traces: true}, DefaultEndpoint},
		{"a setting", map[string]string{envBoth: "http://b:1"}, Options{Metrics: true, Traces: true, Endpoint: "http://a:1"}, "http://a:1"},
		{"the variable", map[string]string{envBoth: "http://b:1"}, Options{Metrics: true, Traces: true}, "the endpoint in " + envBoth},
		{"a blank variable", map[string]string{envBoth: " "}, Options{Traces: true}, DefaultEndpoint},
		{"the variable of traces", map[string]string{envTraces: "http://b:1"}, Options{Metrics: true, Traces: true}, DefaultEndpoint + ", the endpoint in " + envTraces},
		{"the variable of metrics", map[string]string{envMetrics: "http://b:1"}, Options{Metrics: true}, "the endpoint in " + envMetrics},
		{"settings for TLS", nil, Options{Metrics: true, TLS: &tls.Config{}}, "https://localhost:4318"},
	} {
		for _, name := range []string{envBoth, envMetrics, envTraces} {
			t.Setenv(name, test.env[name])
		}
		if got := test.o.Where(); got != test.want {
			t.Errorf("%s: Where() = %q; want %q", test.name, got, test.want)
		}
	}
}

// What Where says is where the exports go: their errors contain the address.
func TestH4_ExportsGoToTheDefaultEndpoint(t *testing.T) {
	for _, name := range []string{envBoth, envMetrics, envTraces} {
		t.Setenv(name, "")
	}
	o := Options{Timeout: 1} // 1 ns, so that each export fails, even if a program listens
	traces, err := otlptracehttp.New(t.Context(), o.traceOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := otlpmetrichttp.New(t.Context(), o.metricOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	for want, export := range map[string]func(context.Context) error{
		DefaultEndpoint + "/v1/traces": func(ctx context.Context) error {
			return traces.ExportSpans(ctx, tracetest.SpanStubs{{Name: "s"}}.Snapshots())
		},
		DefaultEndpoint + "/v1/metrics": func(ctx context.Context) error {
			return metrics.Export(ctx, &metricdata.ResourceMetrics{})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // not for the retries
		err := export(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an export: %v; want it to %s", err, want)
		}
	}
}
