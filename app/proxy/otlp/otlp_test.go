package otlp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metricsservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/adapter/weirotel"
)

// The durations of requests arrive once, in the configured form: by default without an
// instrument, which is more expensive, and with one if only that supports the
// configuration.
func TestC8_RequestsAreToldAsAskedFor(t *testing.T) {
	const filter, limit = "OTEL_METRICS_EXEMPLAR_FILTER", "OTEL_GO_X_CARDINALITY_LIMIT"
	const temporality, aggregation = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
	const cumulative, delta = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	for _, test := range []struct {
		name, value string // of an environment variable
		trusted     bool   // clients' traces are continued
		instrument  bool
		temporality metricspb.AggregationTemporality
		exponential bool
		exemplars   int
	}{
		{temporality: cumulative},
		{trusted: true, instrument: true, temporality: cumulative, exemplars: 1},
		{name: filter, value: "always_on", instrument: true, temporality: cumulative, exemplars: 1},
		{name: filter, value: "always_off", trusted: true, temporality: cumulative},
		{name: limit, value: "100", instrument: true, temporality: cumulative},
		{name: temporality, value: "delta", instrument: true, temporality: delta},
		{name: temporality, value: "cumulative", temporality: cumulative},
		{name: aggregation, value: "base2_exponential_bucket_histogram", instrument: true, temporality: cumulative, exponential: true},
		{name: aggregation, value: "explicit_bucket_histogram", temporality: cumulative},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			if test.name != "" {
				t.Setenv(test.name, test.value)
			}
			all, instrument := sent(t, test.trusted)
			if instrument != test.instrument {
				t.Errorf("an instrument counts the requests: %v; want %v", instrument, test.instrument)
			}
			if len(all) != 1 {
				t.Fatalf("http.server.request.duration has arrived %d times; want once", len(all))
			}
			if test.exponential {
				h := all[0].GetExponentialHistogram()
				if p := h.GetDataPoints(); len(p) != 1 || p[0].Count != 1 || h.AggregationTemporality != test.temporality {
					t.Errorf("%v arrived; want one request in an exponential histogram, %v", all[0], test.temporality)
				}
				return
			}
			h := all[0].GetHistogram()
			p := h.GetDataPoints()
			if len(p) != 1 || p[0].Count != 1 || h.AggregationTemporality != test.temporality {
				t.Fatalf("%v arrived; want one request in a histogram, %v", all[0], test.temporality)
			}
			if len(p[0].ExplicitBounds) != 14 || len(p[0].Exemplars) != test.exemplars {
				t.Errorf("%v arrived; want 14 bounds, and %d exemplars", p[0], test.exemplars)
			}
		})
	}
}

// sent answers one request that is part of a client's trace. It returns the durations
// that arrive, and whether an instrument has recorded them.
func sent(t *testing.T, trusted bool) (all []*metricspb.Metric, instrument bool) {
	t.Helper()
	var mu sync.Mutex // of all
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m metricsservice.ExportMetricsServiceRequest
		if r.URL.Path != "/v1/metrics" || err != nil || proto.Unmarshal(body, &m) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, one := range sm.Metrics {
					if one.Name == "http.server.request.duration" {
						all = append(all, one)
					}
				}
			}
		}
	}))
	defer receiver.Close()
	e, err := Start(t.Context(), Options{
		Endpoint: receiver.URL, Metrics: true, Traces: true, Exemplars: trusted, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := weirotel.New(weirotel.Options{
		TracerProvider: e.TracerProvider(), MeterProvider: e.MeterProvider(), Requests: e.Requests(), Untrusted: !trusted,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://shop.example/", nil)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	w.Middleware("")(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	if err := e.Close(context.Background()); err != nil { // sends
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return all, e.Requests() == nil
}

// Without metrics nothing is counted.
func TestRequestsAreNotCountedWithoutMetrics(t *testing.T) {
	e, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:0", Traces: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if e.Requests() != nil {
		t.Error("requests are counted without metrics")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
