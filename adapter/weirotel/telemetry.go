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
	kindKey       = attribute.Key("weir.kind")       // of what was avoided, or failed
	reasonKey     = attribute.Key("weir.reason")     // of a refusal
	outcomeKey    = attribute.Key("weir.outcome")    // of a load, or of a request
	classKey      = attribute.Key("weir.class")      // of an error, as the Guard classifies it
	backgroundKey = attribute.Key("weir.background") // a refresh
	joinedKey     = attribute.Key("weir.joined")     // another had started the load
	lateKey       = attribute.Key("weir.late")       // the result came too late, and was thrown away
	keysKey       = attribute.Key("weir.keys")       // how many keys a load is for
	queuedKey     = attribute.Key("weir.queued")     // seconds, before the start, waiting for admission
	headedKey     = attribute.Key("weir.headed")     // seconds, from the start to the head of the answer
)

// Options configure a Telemetry. The zero Options do nothing.
type Options struct {
	// TracerProvider makes the spans. nil: there are none. A program with a global
	// one gives otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. nil: there are none.
	MeterProvider metric.MeterProvider
	// Requests makes what records http.server.request.duration for the requests of
	// a Middleware, once for each set of attributes, in place of an instrument of
	// MeterProvider, without which it is not asked. nil: the instrument. Package
	// requests has one for readers of OpenTelemetry's SDK that costs a small part.
	Requests func(attribute.Set) Recorder
	// Propagator reads the trace context of requests, and writes that of calls.
	// nil: propagation.TraceContext, the fields traceparent and tracestate of the
	// W3C.
	Propagator propagation.TextMapPropagator
	// Untrusted says that requests come from anybody. A trace that they name is
	// linked to, instead of gone on with, so that nobody outside decides what is
	// sampled; and it is not passed on.
	Untrusted bool

	// ErrorMessages records the texts of errors, and the values and stacks of
	// panics, which may hold secrets. Otherwise there are their types only.
	ErrorMessages bool
	// URLs records the URLs of calls, which may hold what is nobody's business.
	// Otherwise there are scheme, host and port only.
	URLs bool
}

// A Telemetry tells OpenTelemetry what Guards and HTTP handlers do. Make one with
// [New]; the zero Telemetry is not usable. It is safe for concurrent use.
type Telemetry struct {
	o      Options // with defaults
	tracer trace.Tracer
	inst   *instruments // nil: no metrics
	seen   registry
}

// New returns a Telemetry. The error is that of a MeterProvider that makes no
// instruments.
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
		return nil, fmt.Errorf("weirotel: make the instruments: %w", err)
	}
	return t, nil
}

// Close ends what is read for metrics of the Guards, Handlers and Gateways that
// were added. Spans and durations go on for as long as the providers do, which are
// not closed. It may be called again.
func (t *Telemetry) Close() error {
	if t.inst == nil || !t.seen.close() {
		return nil
	}
	if err := errors.Join(t.seen.registration.Unregister(), t.inst.active.registration.Unregister()); err != nil {
		return fmt.Errorf("weirotel: close: %w", err)
	}
	return nil
}

// Errors of AddGuard, AddHandler and AddGateway.
var (
	// ErrName: a Guard or a route has no name, so that nobody could tell it apart.
	ErrName = errors.New("weirotel: a name is required")
	// ErrTaken: another Guard, or another Handler, has that name.
	ErrTaken = errors.New("weirotel: the name is taken")
	// ErrNil: there is no Guard, no Handler or no Gateway.
	ErrNil = errors.New("weirotel: nil")
)
