package weirhttp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/inspect"
)

// errNoChance ends requests for which a call would hardly respond in time. It is a DeadlineExceeded
// as well, because the callers of a Transport expect that at their deadlines.
var errNoChance = fmt.Errorf("%w: less is left than the fastest calls take: %w", ErrOutOfTime, context.DeadlineExceeded)

const (
	chanceSpan  = 10 * time.Second
	chanceLeast = 20  // calls without which nothing is known
	chanceShare = 0.1 // a call with less time than this share of calls takes is not made
)

// chances is how long the calls of a Handler take of late, to the head of a response without an
// error: of the current span and the one before. Without calls it forgets, so that what
// is refused because of it cannot keep it from learning.
type chances struct {
	mu     sync.Mutex
	began  time.Time          // of the current span; guarded by mu
	latest *inspect.Histogram // of the current span; guarded by mu
	before *inspect.Histogram // of the one before, or nil; guarded by mu
}

func (c *chances) turnLocked(now time.Time) {
	switch age := now.Sub(c.began); {
	case age >= 2*chanceSpan:
		c.began, c.latest, c.before = now, nil, nil

	case age >= chanceSpan:
		c.began, c.latest, c.before = c.began.Add(chanceSpan), nil, c.latest
	}
}

// took records a call.
func (c *chances) took(d time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked(now)
	if c.latest == nil {
		c.latest = new(inspect.Histogram)
	}
	c.latest.Record(d)
}

// least returns the time that nine of ten calls need, 0 if it is not known.
func (c *chances) least() time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked(now)
	var d inspect.Durations
	for _, h := range []*inspect.Histogram{c.latest, c.before} {
		if h != nil {
			d = d.Add(h.Durations())
		}
	}
	if d.Count < chanceLeast {
		return 0
	}
	return d.Quantile(chanceShare)
}

// hopeless reports whether a call that starts now would hardly respond before until, zero for
// no bound.
func (h *Handler) hopeless(until time.Time) bool {
	if until.IsZero() {
		return false
	}
	left := time.Until(until)
	return left <= 0 || left < h.chances.least()
}

// hopeless reports whether f, which has its permit, would respond too late for all of its callers,
// and ends it then. A refresh has none, and a call that is finished without them serves later ones.
func (f *flight) hopeless() bool {
	h := f.group.handler
	least := h.chances.least()
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	d, some := f.crowd.Demand()
	if !some || f.refresh || h.o.FinishAbandoned || d.Until.IsZero() {
		return false
	}
	if left := time.Until(d.Until); left > 0 && left >= least {
		return false
	}
	// Under the same lock, so that a request with more time does not join in between.
	return f.endLocked(func() { f.err = errNoChance })
}
