package gateway

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limit"
)

// A gate is a limiter and what it has counted.
type gate struct {
	limit.Limiter
	kind  string // as LimitStats has it
	stats func() limit.AdaptiveStats
}

// newGate returns the limiter of a route or an upstream: n calls at once, none
// but the queue's bounds if n is negative.
func newGate(name string, n int, adapts bool, queue int, wait time.Duration) (*gate, error) {
	wait = cmp.Or(wait, defaultQueueWait)
	switch {
	case adapts:
		a, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: name, Max: n, Queue: queue, MaxWait: wait})
		if err != nil {
			return nil, err
		}
		return &gate{a, "adaptive", a.Stats}, nil
	case n < 0:
		return &gate{limit.All(), "none", func() (none limit.AdaptiveStats) { return none }}, nil
	}
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: name, Limit: n, Queue: queue, MaxWait: wait})
	if err != nil {
		return nil, err
	}
	return &gate{c, "fixed", func() limit.AdaptiveStats { return limit.AdaptiveStats{ConcurrencyStats: c.Stats()} }}, nil
}

// A valve is a limiter whose gate can be replaced, while what came through the
// one before goes on under that.
type valve struct {
	now atomic.Pointer[gate] // read by every call and replaced by Update: a mutex would be one more for all to share
}

// Acquire implements limit.Limiter.
func (v *valve) Acquire(ctx context.Context) (limit.Permit, error) { return v.now.Load().Acquire(ctx) }

// callGate returns the gate of u's calls.
func (u Upstream) callGate() (*gate, error) {
	return newGate(u.Name, cmp.Or(u.Concurrency, 256), u.Adaptive, u.Queue, u.QueueWait)
}

// streamGate returns that of its upgrades and event streams, for which nobody
// waits.
func (u Upstream) streamGate() (*gate, error) {
	return newGate(u.Name+" streams", cmp.Or(u.Streams, 1024), false, -1, 0)
}

// sameCalls reports whether the calls of u and o are limited alike.
func (u Upstream) sameCalls(o Upstream) bool {
	return u.Concurrency == o.Concurrency && u.Adaptive == o.Adaptive && u.Queue == o.Queue && u.QueueWait == o.QueueWait
}
