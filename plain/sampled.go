package plain

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// SampledPerSecond is how many lines with one message and one subject a sampled logger
	// writes per second.
	SampledPerSecond = 10
	// maxSampled bounds the messages and subjects that a sampled logger counts apart. The
	// others share one count.
	maxSampled = 1024
)

// Sampled returns a logger that writes at most [SampledPerSecond] lines per second with the
// same level, message, and value of the attribute named subject; an outage makes thousands. The
// next such line has the number of lines in between as left_out. A logger that writes
// messages of level Debug is returned unchanged: it is there for every line.
func Sampled(l *slog.Logger, subject string) *slog.Logger {
	return slog.New(&sampled{l.Handler(), &sampler{subject: subject, of: map[sample]*window{}}})
}

type sampled struct {
	slog.Handler
	s *sampler
}

type sampler struct {
	subject string
	mu      sync.Mutex
	of      map[sample]*window // guarded by mu
}

// A sample is what lines must have in common to be counted together.
type sample struct {
	level         slog.Level
	text, subject string
}

type window struct {
	since   time.Time
	n, left int
}

// Handle implements [slog.Handler].
func (h *sampled) Handle(ctx context.Context, r slog.Record) error {
	if h.Enabled(ctx, slog.LevelDebug) {
		return h.Handler.Handle(ctx, r)
	}
	left, ok := h.s.take(r)
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", left))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *sampled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sampled{h.Handler.WithAttrs(attrs), h.s}
}

// WithGroup implements [slog.Handler].
func (h *sampled) WithGroup(name string) slog.Handler {
	return &sampled{h.Handler.WithGroup(name), h.s}
}

// take reports whether r is written, and how many like it were left out before.
func (s *sampler) take(r slog.Record) (left int, ok bool) {
	k := sample{level: r.Level, text: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == s.subject {
			k.subject = a.Value.String()
			return false
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[k]
	if w == nil {
		if len(s.of) >= maxSampled {
			k = sample{}
			w = s.of[k]
		}
		if w == nil {
			w = new(window)
			s.of[k] = w
		}
	}
	now := time.Now()
	if d := now.Sub(w.since); d < 0 || d >= time.Second {
		w.since, w.n = now, 0
	}
	if w.n >= SampledPerSecond {
		w.left++
		return 0, false
	}
	w.n++
	left, w.left = w.left, 0
	return left, true
}
