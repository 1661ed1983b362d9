package weirotel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/limit"
)

// errorType returns the error.type of err: a word for weir's own errors, the result of
// ErrorType for errors that have this method, and the type of all others. Its values are
// bounded by the number of error types in the program, and by ErrorType.
func errorType(err error) string {
	var panicked *flight.PanicError
	var refused *limit.Error
	switch {
	case errors.As(err, &panicked):
		return "panic"
	case errors.As(err, &refused):
		return "limited"
	case errors.Is(err, flight.ErrGoexit):
		return "goexit"
	case errors.Is(err, weir.ErrStuck):
		return "stuck"
	case errors.Is(err, weir.ErrClosed):
		return "closed"
	case errors.Is(err, flight.ErrAbandoned):
		return "abandoned"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	var named interface{ ErrorType() string }
	if errors.As(err, &named) {
		return named.ErrorType()
	}
	return typeName(err)
}

// typeName returns the type of err, or of the error that it wraps if it only adds
// text to that.
func typeName(err error) string {
	for {
		name := fmt.Sprintf("%T", err)
		next := errors.Unwrap(err)
		if name != "*fmt.wrapError" && name != "weir.notFound" || next == nil {
			return name
		}
		err = next
	}
}

// fail records err in span: its type, and its text if Options.ErrorMessages is set.
func (t *Telemetry) fail(span trace.Span, err error) {
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType(err)))
	text := ""
	if t.o.ErrorMessages {
		text = err.Error()
	}
	span.SetStatus(codes.Error, text)
	t.refusal(span, err)
	t.panicked(span, err)
}

// refusal records a refusal by a limiter in span, if err is one.
func (t *Telemetry) refusal(span trace.Span, err error) {
	var refused *limit.Error
	if errors.As(err, &refused) {
		span.AddEvent("weir.refused", trace.WithAttributes(reasonKey.String(metrics.Reason(refused.Reason))))
	} else if errors.Is(err, weir.ErrStuck) {
		span.AddEvent("weir.refused", trace.WithAttributes(reasonKey.String("stuck")))
	}
}

// panicked records a panic in span, if err is one.
func (t *Telemetry) panicked(span trace.Span, err error) {
	var p *flight.PanicError
	if !errors.As(err, &p) {
		return
	}
	attrs := []attribute.KeyValue{semconv.ExceptionType(fmt.Sprintf("%T", p.Value))}
	if t.o.ErrorMessages {
		attrs = append(attrs, semconv.ExceptionMessage(fmt.Sprint(p.Value)), semconv.ExceptionStacktrace(string(p.Stack)))
	}
	span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(attrs...))
}

func underscored(words string) string { return strings.ReplaceAll(words, " ", "_") }
