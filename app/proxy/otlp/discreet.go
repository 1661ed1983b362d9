package otlp

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
)

// notShown replaces values in the log that can be secret.
const notShown = "(not shown)"

// discreet filters the SDK's log: it keeps the messages but removes input values. The
// SDK logs OTEL_* variables that it cannot parse, such as the headers with the
// receiver's token, or a URL with a password.
type discreet struct{ slog.Handler }

// Handle implements [slog.Handler].
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(shown(a))
		return true
	})
	return d.Handler.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (d discreet) WithAttrs(all []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(all))
	for i, a := range all {
		clean[i] = shown(a)
	}
	return discreet{d.Handler.WithAttrs(clean)}
}

// WithGroup implements [slog.Handler].
func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }

// said lists errors of the SDK that do not repeat their input.
var said = []string{"missing '=", "invalid header key"}

// shown returns a in a form that is safe to log: numbers, errors that do not repeat
// their input, and the few strings that are known to be names. All other values are
// hidden, whatever this or another version of the SDK logs.
func shown(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	fine := false
	switch v.Kind() {
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindUint64, slog.KindTime:
		fine = true
	case slog.KindString:
		fine = a.Key == "environment variable" || a.Key == "file" || a.Key == "logger"
	case slog.KindAny:
		err, ok := v.Any().(error)
		fine = ok && (errors.As(err, new(*fs.PathError)) || slices.Contains(said, err.Error()))
	}
	if fine {
		return slog.Attr{Key: a.Key, Value: v}
	}
	return slog.String(a.Key, notShown)
}
