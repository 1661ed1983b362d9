package gateway

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/limit"
)

// A gate is a limiter and what it has counted.
type gate struct {
	limit.Limiter
	kind  string // as LimitStats has it
	stats func() limit.AdaptiveStats
	crowd *slow.Crowd // of a route's own cap; an upstream's is the valve's
}

var (
	_ slow.Crowded = (*gate)(nil)
	_ slow.Crowded = (*valve)(nil)
)

// Crowd implements slow.Crowded.
func (g *gate) Crowd() *slow.Crowd { return g.crowd }

// gauge is a slow.Gauge.
func (g *gate) gauge() (permits, inUse, queued int) {
	s := g.stats()
	return s.Limit, s.InUse, s.Queued
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
		return &gate{Limiter: a, kind: "adaptive", stats: a.Stats}, nil
	case n < 0:
		return &gate{Limiter: limit.All(), kind: "none", stats: func() (none limit.AdaptiveStats) { return none }}, nil
	}
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: name, Limit: n, Queue: queue, MaxWait: wait})
	if err != nil {
		return nil, err
	}
	return &gate{Limiter: c, kind: "fixed", stats: func() limit.AdaptiveStats { return limit.AdaptiveStats{ConcurrencyStats: c.Stats()} }}, nil
}

// A valve is a limiter whose gate can be replaced, while what came through the
// one before goes on under that.
type valve struct {
	crowd *slow.Crowd          // of all who came through; nil where streams are let in
	now   atomic.Pointer[gate] // read by every call and replaced by Update: a mutex would be one more for all to share
}

// Acquire implements limit.Limiter.
func (v *valve) Acquire(ctx context.Context) (limit.Permit, error) { return v.now.Load().Acquire(ctx) }

// Crowd implements slow.Crowded.
func (v *valve) Crowd() *slow.Crowd { return v.crowd }

// gauge is a slow.Gauge of the gate that is there now. What holds permits of the
// one before is none of its business.
func (v *valve) gauge() (permits, inUse, queued int) { return v.now.Load().gauge() }

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
