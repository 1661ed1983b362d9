package weir

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weir-go/weir/plain"
)

// SlogObserver returns an Observer that logs for operators: failed and stuck loads and refusals at
// Warn, stale answers and skipped refreshes at Info, every other load, invalidations and evictions
// at Debug. It logs neither keys nor values, since they may be secret; errors of the source are
// logged unchanged. A nil logger is slog.Default.
//
// Of lines with the same message and Guard, ten per second are logged; the next one has the number
// of the others as left_out. If the logger logs at Debug, all are.
func SlogObserver(logger *slog.Logger) Observer {
	return &slogObserver{logger: plain.Sampled(plain.Logger(logger), "guard")}
}

type slogObserver struct {
	NopObserver
	logger *slog.Logger
}

func (s *slogObserver) LoadEnd(ctx context.Context, l LoadInfo, end LoadEnd) {
	level, msg := slog.LevelDebug, "weir: loaded"
	if end.Err != nil && end.Class != ClassNotFound {
		level, msg = slog.LevelWarn, "weir: load failed"
	}
	if l.Stream {
		msg = "weir: stream ended"
	}
	if end.Late {
		msg = "weir: load ended late, its result was thrown away"
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("guard", l.Guard),
		slog.Duration("took", end.Duration),
		slog.Duration("queued", end.Queued),
		slog.Int("keys", l.Keys),
		slog.Bool("background", l.Background),
	}
	if end.Err != nil {
		attrs = append(attrs, slog.String("class", end.Class.String()), slog.Any("err", end.Err))
		attrs = withStack(attrs, end.Err)
	}
	s.logger.LogAttrs(ctx, level, msg, attrs...)
}

func (s *slogObserver) Event(ctx context.Context, e Event) {
	level := slog.LevelWarn
	switch e.Kind {
	case EventStaleOnError, EventRefreshSkipped, EventAbandoned, EventInvalidationsSent:
		level = slog.LevelInfo
	case EventInvalidated, EventExpired, EventEvicted:
		level = slog.LevelDebug
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("guard", e.Guard)}
	if e.Keys > 0 {
		attrs = append(attrs, slog.Int("keys", e.Keys))
	}
	if len(e.Tags) > 0 {
		attrs = append(attrs, slog.Int("tags", len(e.Tags)))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
		attrs = withStack(attrs, e.Err)
	}
	s.logger.LogAttrs(ctx, level, "weir: "+e.Kind.String(), attrs...)
}

// withStack adds the stack of a panic, which its text does not have.
func withStack(attrs []slog.Attr, err error) []slog.Attr {
	var p *PanicError
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	return attrs
}
