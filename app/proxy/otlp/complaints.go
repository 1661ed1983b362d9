package otlp

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// complaintEvery is the interval between log lines about failures.
const complaintEvery = time.Minute

// complaints logs failed exports: one line per minute for each kind, and one when
// exporting works again.
type complaints struct {
	logger *slog.Logger

	mu    sync.Mutex
	kinds map[string]*kind // guarded by mu
}

// A kind is a kind of export: metrics or traces.
type kind struct {
	limit  *rate.Limiter
	told   bool // the log has reported a failure
	unsaid int  // failures since the last line
}

func newComplaints(l *slog.Logger) *complaints {
	return &complaints{logger: l, kinds: map[string]*kind{}}
}

// note records the result of an export of what.
func (c *complaints) note(what string, err error) {
	if err != nil {
		c.failed(what, err)
		return
	}
	c.mu.Lock()
	k := c.kindLocked(what)
	news := k.told
	k.told, k.unsaid = false, 0
	c.mu.Unlock()
	if news {
		c.logger.Info("telemetry is sent again", "what", what)
	}
}

func (c *complaints) failed(what string, err error) {
	c.mu.Lock()
	k := c.kindLocked(what)
	say, before := k.limit.Allow(), k.unsaid
	if say {
		k.told, k.unsaid = true, 0
	} else {
		k.unsaid++
	}
	c.mu.Unlock()
	if say {
		c.logger.Warn("telemetry could not be sent and is lost", "what", what, "error", err, "times_before", before)
	}
}

// kindLocked returns the kind of that name. c.mu must be held.
func (c *complaints) kindLocked(what string) *kind {
	k := c.kinds[what]
	if k == nil {
		k = &kind{limit: rate.NewLimiter(rate.Every(complaintEvery), 1)}
		c.kinds[what] = k
	}
	return k
}
