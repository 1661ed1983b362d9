package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Logger returns a logger that makes messages, attribute names and values of any type
// plain before it passes them to l. A nil l means slog.Default.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	if _, is := l.Handler().(handler); is {
		return l
	}
	return slog.New(handler{l.Handler()})
}

// Handler is [Logger] for a handler.
func Handler(h slog.Handler) slog.Handler {
	if _, is := h.(handler); is {
		return h
	}
	return handler{h}
}

type handler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	same := true
	out := slog.NewRecord(r.Time, r.Level, Text(r.Message), r.PC)
	same = out.Message == r.Message
	r.Attrs(func(a slog.Attr) bool {
		b, kept := attr(a)
		same = same && kept
		out.AddAttrs(b)
		return true
	})
	if same {
		out = r
	}
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(all []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(all))
	for i, a := range all {
		out[i], _ = attr(a)
	}
	return handler{h.Handler.WithAttrs(out)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(Line(name))} }

// attr returns a made plain, and whether it is unchanged.
func attr(a slog.Attr) (slog.Attr, bool) {
	v, same := value(a.Value.Resolve())
	key := Line(a.Key)
	if same && key == a.Key {
		return a, true
	}
	return slog.Attr{Key: key, Value: v}, false
}

func value(v slog.Value) (out slog.Value, same bool) {
	switch v.Kind() {
	case slog.KindString:
		if t := Text(v.String()); t != v.String() {
			return slog.StringValue(t), false
		}
	case slog.KindGroup:
		group := v.Group()
		all, same := make([]slog.Attr, len(group)), true
		for i, a := range group {
			var kept bool
			all[i], kept = attr(a)
			same = same && kept
		}
		if !same {
			return slog.GroupValue(all...), false
		}
	case slog.KindAny:
		return anything(v)
	}
	return v, true
}

// anything makes a value of arbitrary type plain. Handlers format such values in
// different ways: as JSON, with %+v, or with the value's own method.
func anything(v slog.Value) (slog.Value, bool) {
	switch x := v.Any().(type) {
	case nil:
		return v, true
	case error:
		if t := Text(errorText(x)); t != errorText(x) {
			return slog.AnyValue(&plainError{t, x}), false
		}
		if _, itself := x.(json.Marshaler); !itself {
			return v, true
		}
	case []string:
		out, same := make([]string, len(x)), true
		for i, s := range x {
			out[i] = Text(s)
			same = same && out[i] == s
		}
		if !same {
			return slog.AnyValue(out), false
		}
		return v, true
	case []byte:
		if t := Text(string(x)); t != string(x) {
			return slog.StringValue(t), false
		}
		return v, true
	}
	text := fmt.Sprintf("%+v", v.Any())
	encoded, err := json.Marshal(v.Any())
	if Text(text) == text && (err != nil || len(JSON(encoded)) == len(encoded)) {
		return v, true
	}
	return slog.StringValue(Text(text)), false
}

// errorText returns the text of err. It uses fmt because Error can panic, for example
// on a nil pointer; fmt then reports the panic in the text.
func errorText(err error) string { return fmt.Sprint(err) }

// A plainError wraps an error with a text that is safe to show.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }

// Unwrap returns the original error.
func (e *plainError) Unwrap() error { return e.err }
