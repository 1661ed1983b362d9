package weirhttp

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/weir-go/weir/plain"
)

// SlogObserver returns an Observer that logs what an operator needs. Panics are
// logged at Error. Calls that failed or returned 5xx, rejected requests, clients that
// were cut off because they fell behind, and responses that differed in observe mode
// are logged at Warn. Stale responses are
// logged at Info, and all other calls at Debug. It logs methods, but neither URLs nor
// header fields, because they may be secret; errors of the next handler are logged
// unchanged. A nil logger means slog.Default.
//
// Of lines with the same message and route, ten per second are logged; the next one has the
// number of the others as left_out. If the logger logs at Debug, all are.
func SlogObserver(logger *slog.Logger) Observer {
	return &slogObserver{logger: plain.Sampled(plain.Logger(logger), "route")}
}

type slogObserver struct {
	NopObserver
	logger *slog.Logger
}

func (s *slogObserver) CallEnd(ctx context.Context, c CallInfo, end CallEnd) {
	level, msg := slog.LevelDebug, "weirhttp: called"
	if end.Err != nil || end.Status >= http.StatusInternalServerError {
		level, msg = slog.LevelWarn, "weirhttp: call failed"
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("route", c.Route),
		slog.String("method", c.Request.Method),
		slog.Int("status", end.Status),
		slog.Duration("took", end.Duration),
		slog.Duration("queued", end.Queued),
		slog.Bool("background", c.Background),
	}
	if end.Err != nil {
		attrs = append(attrs, slog.Any("err", end.Err))
	}
	s.logger.LogAttrs(ctx, level, msg, attrs...)
}

func (s *slogObserver) Event(ctx context.Context, e Event) {
	level := slog.LevelWarn
	switch e.Kind {
	case EventPanicked:
		level = slog.LevelError
	case EventStale:
		level = slog.LevelInfo
	case EventFailed:
		return // CallEnd has logged the call, once for all requests that waited for it
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("route", e.Route)}
	if e.Request != nil {
		attrs = append(attrs, slog.String("method", e.Request.Method))
	}
	if e.Status != 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	s.logger.LogAttrs(ctx, level, "weirhttp: "+e.Kind.String(), attrs...)
}
