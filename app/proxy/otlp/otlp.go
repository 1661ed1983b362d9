// Package otlp sends the metrics and traces of weir proxy to a receiver, by the
// OpenTelemetry SDK. A receiver that is slow or away costs what could not be sent,
// and a line in the log now and then; requests never wait for it.
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

// defaultService is what the program is called if nobody says.
const defaultService = "weir"

// Options say what is sent where. What is zero is as the OTEL_* variables say
// that the SDK reads, and then as it has it by default.
type Options struct {
	Service  string            // service.name
	Endpoint string            // base URL, to which /v1/metrics and /v1/traces are added
	Headers  map[string]string // never shown
	TLS      *tls.Config
	Timeout  time.Duration // for one sending

	Metrics  bool
	Interval time.Duration // from one sending of the metrics to the next

	Traces bool
	// Sample is the share of the traces that begin here which are sent. Whether the
	// others are is said by who began them. nil means not said.
	Sample *float64

	// Exemplars says that the durations of requests may have some: that requests are
	// parts of traces that clients have begun, and that are gone on with.
	Exemplars bool

	// Version and Instance are of this program: service.version, which may be
	// empty, and service.instance.id.
	Version, Instance string
	// Logger logs when sending fails, and when it works again. Required.
	Logger *slog.Logger
}

// What the receiver cannot take now is tried again a few times, for about as long as
// the next metrics are due; after that it is lost, which is logged.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Second
	retryEnd   = 10 * time.Second
)

// An Exporter sends. Close it.
type Exporter struct {
	tracer *sdktrace.TracerProvider // nil: no traces
	meter  *sdkmetric.MeterProvider // nil: no metrics
	counts *requests.Counts         // nil: an instrument counts requests
}

// Start returns an Exporter. It does not wait for the receiver.
func Start(ctx context.Context, o Options) (*Exporter, error) {
	said := newComplaints(o.Logger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { said.failed("something", err) }))
	otel.SetLogger(logr.FromSlogHandler(discreet{o.Logger.Handler()}))
	res, err := o.resource(ctx)
	if err != nil {
		o.Logger.Warn("not all is known that telemetry tells of the program", "error", err)
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

// TracerProvider returns where spans are made, nil if none are sent.
func (e *Exporter) TracerProvider() trace.TracerProvider {
	if e.tracer == nil {
		return nil
	}
	return e.tracer
}

// MeterProvider returns where metrics are made, nil if none are sent.
func (e *Exporter) MeterProvider() metric.MeterProvider {
	if e.meter == nil {
		return nil
	}
	return e.meter
}

// Requests returns what counts the durations of requests, for weirotel.Options: nil
// if an instrument has to, or if no metrics are sent.
func (e *Exporter) Requests() func(attribute.Set) weirotel.Recorder {
	if e.counts == nil {
		return nil
	}
	return e.counts.Recorder
}

// instrument reports whether only an instrument of the SDK can record the
// durations of requests as configured, which takes three times as long. By
// default it is not so.
func (o Options) instrument(e sdkmetric.Exporter) bool {
	const kind = sdkmetric.InstrumentKindHistogram
	_, explicit := e.Aggregation(kind).(sdkmetric.AggregationExplicitBucketHistogram)
	filter := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_METRICS_EXEMPLAR_FILTER")))
	return !explicit || e.Temporality(kind) != metricdata.CumulativeTemporality ||
		o.Exemplars && filter != "always_off" || filter == "always_on" ||
		strings.TrimSpace(os.Getenv("OTEL_GO_X_CARDINALITY_LIMIT")) != ""
}

// Close sends what is left, until ctx ends, and stops.
func (e *Exporter) Close(ctx context.Context) error {
	done := make(chan error, 2)
	go func() { // both at once, as each may take all of the time; they end with ctx
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

// resource describes the program. What Options say wins over the variables, and
// they over what is known anyway.
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
	if o.Endpoint != "" {
		all = append(all, otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"))
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
	if o.Endpoint != "" {
		all = append(all, otlpmetrichttp.WithEndpointURL(o.Endpoint+"/v1/metrics"))
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

// spans is an exporter whose failures are logged.
type spans struct {
	sdktrace.SpanExporter
	said *complaints
}

// ExportSpans is of [sdktrace.SpanExporter].
func (s *spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	s.said.note("traces", s.SpanExporter.ExportSpans(ctx, all))
	return nil // it has been logged
}

// metrics is an exporter whose failures are logged.
type metrics struct {
	sdkmetric.Exporter
	said *complaints
}

// Export is of [sdkmetric.Exporter].
func (m *metrics) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	m.said.note("metrics", m.Exporter.Export(ctx, all))
	return nil // it has been logged
}
