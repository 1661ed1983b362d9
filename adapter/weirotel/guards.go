package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
)

var _ weir.Observer = guards{}

// guards observes Guards.
type guards struct {
	weir.NopObserver
	t *Telemetry
}

// Guards returns an Observer for Options.Observer of any number of Guards. Give the
// Guards different names to distinguish them.
func (t *Telemetry) Guards() weir.Observer { return guards{t: t} }

// LoadStart implements [weir.Observer].
func (o guards) LoadStart(ctx context.Context, l weir.LoadInfo) context.Context {
	if o.t.tracer == nil {
		return ctx
	}
	name := "weir load "
	if l.Stream {
		name = "weir stream "
	}
	return o.t.start(ctx, beginning{
		name:       name + l.Guard,
		kind:       trace.SpanKindInternal,
		attrs:      []attribute.KeyValue{guardKey.String(l.Guard), keysKey.Int(l.Keys), backgroundKey.Bool(l.Background)},
		background: l.Background,
	})
}

// LoadEnd implements [weir.Observer].
func (o guards) LoadEnd(ctx context.Context, l weir.LoadInfo, end weir.LoadEnd) {
	how := loaded{guard: l.Guard, outcome: "loaded", background: l.Background}
	switch {
	case end.Err != nil && end.Class == weir.ClassNotFound:
		how.outcome = "not_found"
	case end.Err != nil:
		how.outcome, how.errorType = "failed", errorType(end.Err)
	}
	if in := o.t.inst; in != nil && !l.Stream { // a stream may take hours
		in.loads.get(how, loaded.attrs).Record(ctx, end.Duration)
	}
	span := o.t.started(ctx)
	if span == nil {
		return
	}
	span.SetAttributes(outcomeKey.String(how.outcome), queuedKey.Float64(end.Queued.Seconds()), lateKey.Bool(end.Late))
	if how.outcome == "failed" {
		span.SetAttributes(classKey.String(underscored(end.Class.String())))
		o.t.fail(span, end.Err)
	}
	span.End(trace.WithTimestamp(end.Start.Add(end.Duration)))
}

// Waited implements [weir.Observer]. The caller that started a load has the load's
// span instead of a wait span, unless the load never began because it was refused or
// another instance of the fleet had the result.
func (o guards) Waited(ctx context.Context, w weir.Wait) {
	how := waited{unit: guardKey.String(w.Guard), joined: w.Joined}
	if w.Err != nil {
		how.errorType = errorType(w.Err)
	}
	if in := o.t.inst; in != nil {
		in.waits.get(how, waited.attrs).Record(ctx, w.Duration)
	}
	if o.t.tracer != nil && (w.Joined || w.Load == nil) {
		o.t.wait(ctx, "weir wait "+w.Guard, w.Start, w.Duration, w.Load, w.Err, guardKey.String(w.Guard), joinedKey.Bool(w.Joined))
	}
}

// loaded determines the attributes of a load's duration.
type loaded struct {
	guard, outcome, errorType string
	background                bool
}

func (l loaded) attrs() []attribute.KeyValue {
	return withError(l.errorType, guardKey.String(l.guard), outcomeKey.String(l.outcome), backgroundKey.Bool(l.background))
}

// waited determines the attributes of a wait's duration.
type waited struct {
	unit      attribute.KeyValue
	joined    bool
	errorType string
}

func (w waited) attrs() []attribute.KeyValue {
	return withError(w.errorType, w.unit, joinedKey.Bool(w.joined))
}

func withError(errorType string, attrs ...attribute.KeyValue) []attribute.KeyValue {
	if errorType != "" {
		attrs = append(attrs, semconv.ErrorTypeKey.String(errorType))
	}
	return attrs
}
