package access

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/plain"
)

// An Output passes lines on to a writer, and reports those that it could not write: the
// log itself has nowhere to report them. It is safe for concurrent use if the writer is.
type Output struct {
	to     io.Writer
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
	return &Output{to: to, logger: plain.Logger(l)}
}

// Lost returns how many lines could not be written.
func (o *Output) Lost() uint64 { return o.total.Load() }

// Write implements io.Writer. Each call has one line.
func (o *Output) Write(line []byte) (int, error) {
	n, err := o.to.Write(line)
	if err != nil {
		o.fail(err)
	}
	return n, err
}

func (o *Output) fail(err error) {
	o.total.Add(1)
	o.mu.Lock()
	o.lost++
	lost, now := o.lost, time.Now()
	due := o.warned.IsZero() || now.Sub(o.warned) >= warnEvery
	if due {
		o.warned, o.lost = now, 0
	}
	o.mu.Unlock()
	if due {
		o.logger.Warn("the access log cannot be written, its lines are lost", "lines", lost, "error", err)
	}
}
