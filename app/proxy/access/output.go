package access

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/proxy/lines"
	"github.com/weir-go/weir/plain"
)

// An Output passes lines on to a writer, and reports those that it could not write: the
// log itself has nowhere to report them. It is safe for concurrent use.
type Output struct {
	*lines.Writer
	logger *slog.Logger
	total  atomic.Uint64

	mu     sync.Mutex
	warned time.Time // guarded by mu
	lost   uint64    // guarded by mu; since the last warning
}

// warnEvery is the least time between two warnings of an Output.
const warnEvery = time.Minute

// NewOutput returns an Output to a writer. It logs a warning once a minute at most. A nil
// logger means slog.Default.
func NewOutput(to io.Writer, l *slog.Logger) *Output {
	o := &Output{logger: plain.Logger(l)}
	o.Writer = lines.New(to, false, o.fail)
	return o
}

// Lost returns how many lines could not be written.
func (o *Output) Lost() uint64 { return o.total.Load() }

func (o *Output) fail(n int, err error) {
	o.total.Add(uint64(n))
	o.mu.Lock()
	o.lost += uint64(n)
	lost, now := o.lost, time.Now()
	due := o.warned.IsZero() || now.Sub(o.warned) >= warnEvery
	if due {
		o.warned, o.lost = now, 0
	}
	o.mu.Unlock()
	if due {
		o.logger.Warn("writing the access log failed; these lines are lost", "lines", lost, "error", err)
	}
}
