package otlp

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
)

// notShown stands in the log for what may be secret.
const notShown = "(not shown)"

// discreet is the log of the SDK: with its words, but without what it read. It logs
// the values of OTEL_* variables that it does not understand, such as the headers
// with the receiver's token, or a URL with a password.
type discreet struct{ slog.Handler }

// Handle is of [slog.Handler].
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(shown(a))
		return true
	})
	return d.Handler.Handle(ctx, clean)
}

// WithAttrs is of [slog.Handler].
func (d discreet) WithAttrs(all []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(all))
	for i, a := range all {
		clean[i] = shown(a)
	}
	return discreet{d.Handler.WithAttrs(clean)}
}

// WithGroup is of [slog.Handler].
func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }

// said are errors of the SDK that repeat nothing.
var said = []string{"missing '=", "invalid header key"}

// shown is a as it may be in the log: numbers, errors that say nothing of what was
// read, and the few texts that are known to be names. Whatever else the SDK logs, or
// comes to log in another version, is not shown.
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
