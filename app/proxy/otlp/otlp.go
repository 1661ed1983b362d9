// Package otlp sends the metrics and traces of weir proxy to a receiver, with the
// OpenTelemetry SDK. If the receiver is slow or unreachable, data is lost and logged at
// most once a minute. Requests never wait for it.
package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirotel/requests"
)

// defaultService is the service name if none is configured.
const defaultService = "weir"

// Options configure what is sent where. A zero value means the setting in the OTEL_*
// variables, or else the default of the SDK; of Endpoint, DefaultEndpoint.
type Options struct {
	Service  string            // service.name
	Endpoint string            // base URL; /v1/metrics and /v1/traces are appended
	Headers  map[string]string // never shown
	TLS      *tls.Config
	Timeout  time.Duration // for one export

	Metrics  bool
	Interval time.Duration // between exports of metrics

	Traces bool
	// Sample is the share of the traces started here that is sent. For other traces,
	// their origin decides. nil means that it is not set.
	Sample *float64

	// Exemplars is set if the durations of requests can have exemplars: if requests can
	// belong to clients' traces that are continued here.
	Exemplars bool

	// Version and Instance describe this program: service.version, which can be empty,
	// and service.instance.id.
	Version, Instance string
	// Logger logs when exports fail and when they work again. Required.
	Logger *slog.Logger
}

// Failed exports are retried a few times, for up to 10 s. After that the data is lost,
// which is logged.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Second
	retryEnd   = 10 * time.Second
)

// An Exporter exports metrics and traces. Close it.
type Exporter struct {
	tracer *sdktrace.TracerProvider // nil: no traces
	meter  *sdkmetric.MeterProvider // nil: no metrics
	counts *requests.Counts         // nil: an instrument records requests
}

// Start returns an Exporter. It does not wait for the receiver.
func Start(ctx context.Context, o Options) (*Exporter, error) {
	said := newComplaints(o.Logger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { said.failed("something", err) }))
	otel.SetLogger(logr.FromSlogHandler(discreet{o.Logger.Handler()}))
	res, err := o.resource(ctx)
	if err != nil {
		o.Logger.Warn("telemetry describes the program incompletely", "error", err)
	}
	e := &Exporter{}
	if o.Traces {
		exporter, err := otlptracehttp.New(ctx, o.traceOptions()...)
		if err != nil {
			return nil, fmt.Errorf("otlp: %w", err)
		}
		options := []sdktrace.TracerProviderOption{
			sdktrace.WithBatcher(&spans{exporter, said}), sdktrace.WithResource(res),
		}
		if o.Sample != nil {
			options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*o.Sample))))
		}
		e.tracer = sdktrace.NewTracerProvider(options...)
	}
	if o.Metrics {
		exporter, err := otlpmetrichttp.New(ctx, o.metricOptions()...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("otlp: %w", err), e.Close(ctx))
		}
		var options []sdkmetric.PeriodicReaderOption
		if o.Interval > 0 {
			options = append(options, sdkmetric.WithInterval(o.Interval))
		}
		if !o.instrument(exporter) {
			e.counts = requests.New()
			options = append(options, sdkmetric.WithProducer(e.counts))
		}
		reader := sdkmetric.NewPeriodicReader(&metrics{exporter, said}, options...)
		e.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res))
	}
	return e, nil
}

// TracerProvider returns the provider for spans, nil if none are sent.
func (e *Exporter) TracerProvider() trace.TracerProvider {
	if e.tracer == nil {
		return nil
	}
	return e.tracer
}

// MeterProvider returns the provider for metrics, nil if none are sent.
func (e *Exporter) MeterProvider() metric.MeterProvider {
	if e.meter == nil {
		return nil
	}
	return e.meter
}

// Requests returns the function that records the durations of requests, for
// weirotel.Options. It is nil if an instrument has to record them, or if no metrics are
// sent.
func (e *Exporter) Requests() func(attribute.Set) weirotel.Recorder {
	if e.counts == nil {
		return nil
	}
	return e.counts.Recorder
}

// instrument reports whether the configuration requires an instrument of the SDK to
// record the durations of requests, which takes three times as long. By default it does
// not.
func (o Options) instrument(e sdkmetric.Exporter) bool {
	const kind = sdkmetric.InstrumentKindHistogram
	_, explicit := e.Aggregation(kind).(sdkmetric.AggregationExplicitBucketHistogram)
	filter := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_METRICS_EXEMPLAR_FILTER")))
	return !explicit || e.Temporality(kind) != metricdata.CumulativeTemporality ||
		o.Exemplars && filter != "always_off" || filter == "always_on" ||
		strings.TrimSpace(os.Getenv("OTEL_GO_X_CARDINALITY_LIMIT")) != ""
}

// Close sends what is left, until ctx ends, and stops the exports.
func (e *Exporter) Close(ctx context.Context) error {
	done := make(chan error, 2)
	go func() { // concurrently, because each can take all of the time; they end with ctx
		if e.meter == nil {
			done <- nil
			return
		}
		done <- e.meter.Shutdown(ctx)
	}()
	go func() {
		if e.tracer == nil {
			done <- nil
			return
		}
		done <- e.tracer.Shutdown(ctx)
	}()
	return errors.Join(<-done, <-done)
}

// resource describes the program. Options take precedence over the OTEL_* variables,
// and those over the defaults.
func (o Options) resource(ctx context.Context) (*resource.Resource, error) {
	first := []attribute.KeyValue{attribute.String("service.name", defaultService), attribute.String("service.instance.id", o.Instance)}
	if o.Version != "" {
		first = append(first, attribute.String("service.version", o.Version))
	}
	var last []attribute.KeyValue
	if o.Service != "" {
		last = append(last, attribute.String("service.name", o.Service))
	}
	return resource.New(ctx, resource.WithAttributes(first...), resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithFromEnv(), resource.WithAttributes(last...))
}

func (o Options) traceOptions() []otlptracehttp.Option {
	all := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryEnd,
	})}
	if base := o.endpoint(signalTraces); base != "" {
		all = append(all, otlptracehttp.WithEndpointURL(base+"/v1/traces"))
	}
	if len(o.Headers) > 0 {
		all = append(all, otlptracehttp.WithHeaders(o.Headers))
	}
	if o.TLS != nil {
		all = append(all, otlptracehttp.WithTLSClientConfig(o.TLS))
	}
	if o.Timeout > 0 {
		all = append(all, otlptracehttp.WithTimeout(o.Timeout))
	}
	return all
}

func (o Options) metricOptions() []otlpmetrichttp.Option {
	all := []otlpmetrichttp.Option{otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
		Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryEnd,
	})}
	if base := o.endpoint(signalMetrics); base != "" {
		all = append(all, otlpmetrichttp.WithEndpointURL(base+"/v1/metrics"))
	}
	if len(o.Headers) > 0 {
		all = append(all, otlpmetrichttp.WithHeaders(o.Headers))
	}
	if o.TLS != nil {
		all = append(all, otlpmetrichttp.WithTLSClientConfig(o.TLS))
	}
	if o.Timeout > 0 {
		all = append(all, otlpmetrichttp.WithTimeout(o.Timeout))
	}
	return all
}

// spans is an exporter that logs its failures.
type spans struct {
	sdktrace.SpanExporter
	said *complaints
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s *spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	s.said.note("traces", s.SpanExporter.ExportSpans(ctx, all))
	return nil // already logged
}

// metrics is an exporter that logs its failures.
type metrics struct {
	sdkmetric.Exporter
	said *complaints
}

// Export implements [sdkmetric.Exporter].
func (m *metrics) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	m.said.note("metrics", m.Exporter.Export(ctx, all))
	return nil // already logged
}
