package weirotel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the instrumentation: of the Tracer and of the Meter.
const Scope = "github.com/weir-go/weir/adapter/weirotel"

// Keys of attributes that are not OpenTelemetry's own.
const (
	guardKey      = attribute.Key("weir.guard")      // Options.Name of the Guard
	routeKey      = attribute.Key("weir.route")      // Options.Route of the Handler
	kindKey       = attribute.Key("weir.kind")       // of an avoided load, or of a failure
	fallbackKey   = attribute.Key("weir.fallback")   // the upstream that a Fallback has sent the call to
	reasonKey     = attribute.Key("weir.reason")     // of a refusal
	outcomeKey    = attribute.Key("weir.outcome")    // of a load, or of a request
	classKey      = attribute.Key("weir.class")      // of an error, as the Guard classifies it
	backgroundKey = attribute.Key("weir.background") // a refresh
	joinedKey     = attribute.Key("weir.joined")     // another caller had started the load
	lateKey       = attribute.Key("weir.late")       // the result came too late and was discarded
	keysKey       = attribute.Key("weir.keys")       // how many keys a load is for
	queuedKey     = attribute.Key("weir.queued")     // seconds, before the start, waiting for admission
	headedKey     = attribute.Key("weir.headed")     // seconds, from the start to the response headers
)

// Options configure a Telemetry. The zero Options do nothing.
type Options struct {
	// TracerProvider creates the spans; nil: no spans. A program with a global
	// provider passes otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider creates the metrics; nil: no metrics.
	MeterProvider metric.MeterProvider
	// Requests returns the Recorder of http.server.request.duration for the requests
	// of a Middleware. It is called once for each set of attributes, instead of using
	// an instrument of MeterProvider; without a MeterProvider it is not called. nil:
	// the instrument. Package requests has a cheaper one for readers of
	// OpenTelemetry's SDK.
	Requests func(attribute.Set) Recorder
	// Propagator reads the trace context of requests, and writes that of calls. nil:
	// propagation.TraceContext, which uses the W3C fields traceparent and tracestate.
	Propagator propagation.TextMapPropagator
	// Untrusted states that requests can come from anyone. The trace that a request
	// names is linked to instead of continued, so that no client decides what is
	// sampled. It is not passed on.
	Untrusted bool

	// ErrorMessages records the texts of errors, and the values and stacks of panics,
	// which can contain secrets. Without it only their types are recorded.
	ErrorMessages bool
	// URLs records the URLs of calls, which can contain private data. Without it only
	// scheme, host and port are recorded.
	URLs bool
}

// A Telemetry reports what Guards and HTTP handlers do to OpenTelemetry. Create one
// with [New]; the zero Telemetry is not usable. It is safe for concurrent use.
type Telemetry struct {
	o      Options // with defaults
	tracer trace.Tracer
	inst   *instruments // nil: no metrics
	seen   registry
}

// New returns a Telemetry. It fails if the MeterProvider cannot create an instrument.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{o: o}
	if t.o.Propagator == nil {
		t.o.Propagator = propagation.TraceContext{}
	}
	if o.TracerProvider != nil {
		t.tracer = o.TracerProvider.Tracer(Scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	if o.MeterProvider == nil {
		return t, nil
	}
	meter := o.MeterProvider.Meter(Scope, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	if t.inst, err = newInstruments(meter, o.Requests); err == nil {
		err = t.seen.observe(meter)
	}
	if err != nil {
		return nil, fmt.Errorf("weirotel: create the instruments: %w", err)
	}
	return t, nil
}

// Close removes the Guards, Handlers and Gateways that were added from the metrics.
// Spans and durations continue for as long as the providers do, which Close does not
// close. It may be called again.
func (t *Telemetry) Close() error {
	if t.inst == nil || !t.seen.close() {
		return nil
	}
	if err := errors.Join(t.seen.registration.Unregister(), t.inst.active.registration.Unregister()); err != nil {
		return fmt.Errorf("weirotel: close: %w", err)
	}
	return nil
}

// Errors of AddGuard, AddRoute, AddInterceptor and AddGateway.
var (
	// ErrName: a Guard, a route or an interceptor has no name, so its metrics could not be
	// distinguished.
	ErrName = errors.New("weirotel: a name is required")
	// ErrTaken: another Guard, route or interceptor has that name, or the Gateway was
	// already added.
	ErrTaken = errors.New("weirotel: the name is taken")
	// ErrNil: the Guard, the route, the interceptor or the Gateway is nil.
	ErrNil = errors.New("weirotel: nil")
)
