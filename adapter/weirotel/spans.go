package weirotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// spanOf is the context key of the span that a Telemetry has started for a load or a
// call. The context's current span does not serve for this, because others may start
// spans too.
type spanOf struct{ t *Telemetry }

// A beginning holds what the span of a load or a call starts with.
type beginning struct {
	name       string
	kind       trace.SpanKind
	attrs      []attribute.KeyValue
	background bool
	remote     trace.SpanContext // to be linked to, if valid
}

// start starts a span in ctx. A background span has no parent: otherwise it would
// make the trace of the request that started it outlast the request.
func (t *Telemetry) start(ctx context.Context, b beginning) context.Context {
	opts := []trace.SpanStartOption{trace.WithSpanKind(b.kind), trace.WithAttributes(b.attrs...)}
	if b.background {
		opts = append(opts, trace.WithNewRoot())
		if from := trace.SpanContextFromContext(ctx); from.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: from}))
		}
	}
	if b.remote.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: b.remote}))
	}
	ctx, span := t.tracer.Start(ctx, b.name, opts...)
	return context.WithValue(ctx, spanOf{t}, span)
}

// started returns the span that start has put into ctx, or nil.
func (t *Telemetry) started(ctx context.Context) trace.Span {
	span, _ := ctx.Value(spanOf{t}).(trace.Span)
	return span
}

// wait records a wait for the work that runs under load, which is nil if it had not
// started.
func (t *Telemetry) wait(ctx context.Context, name string, start time.Time, d time.Duration, load context.Context, err error, attrs ...attribute.KeyValue) {
	opts := []trace.SpanStartOption{trace.WithTimestamp(start), trace.WithAttributes(attrs...)}
	if load != nil {
		if to := trace.SpanContextFromContext(load); to.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: to}))
		}
	}
	_, span := t.tracer.Start(ctx, name, opts...)
	if err != nil {
		t.fail(span, err)
	}
	span.End(trace.WithTimestamp(start.Add(d)))
}
