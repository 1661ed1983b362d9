package gateway

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A gate is a limiter with its counters.
type gate struct {
	limit.Limiter
	kind  string // as LimitStats has it
	stats func() limit.AdaptiveStats

	bounds bounds
	change func(bounds) error // nil without a limit
}

// bounds are the settings of a gate that can change while it is in use.
type bounds struct {
	n, queue          int
	wait, over, retry time.Duration
	least             int // see Upstream.MinConcurrency
	storm             func(limit.Storm)
}

// Stats is what weirhttp reads.
func (g *gate) Stats() limit.AdaptiveStats { return g.stats() }

// newGate returns the limiter of a route or an upstream: b.n calls at once, or only the
// queue's bounds if that is negative.
func newGate(name string, adapts bool, b bounds) (*gate, error) {
	b.wait = cmp.Or(b.wait, defaultQueueWait)
	switch {
	case adapts:
		options := func(b bounds) limit.AdaptiveOptions {
			return limit.AdaptiveOptions{Name: name, Max: b.n, Queue: b.queue, MaxWait: b.wait, OverloadAfter: b.over, MaxRetryAfter: b.retry}
		}
		a, err := limit.NewAdaptive(options(b))
		if err != nil {
			return nil, err
		}
		return &gate{Limiter: a, kind: "adaptive", stats: a.Stats, bounds: b, change: func(b bounds) error { return a.Update(options(b)) }}, nil
	case b.n < 0:
		return &gate{Limiter: limit.All(), kind: "none", stats: func() (none limit.AdaptiveStats) { return none }}, nil
	}
	options := func(b bounds) limit.ConcurrencyOptions {
		return limit.ConcurrencyOptions{Name: name, Limit: b.n, Queue: b.queue, MaxWait: b.wait, OverloadAfter: b.over, MaxRetryAfter: b.retry, MinLimit: b.least, OnStorm: b.storm}
	}
	c, err := limit.NewConcurrency(options(b))
	if err != nil {
		return nil, err
	}
	stats := func() limit.AdaptiveStats { return limit.AdaptiveStats{ConcurrencyStats: c.Stats()} }
	return &gate{Limiter: c, kind: "fixed", stats: stats, bounds: b, change: func(b bounds) error { return c.Update(options(b)) }}, nil
}

// A valve is a limiter whose gate can be changed, or replaced by one of another kind. Calls
// admitted by the previous gate continue under it.
type valve struct {
	own bool                 // it is a route's; set before it is used
	now atomic.Pointer[gate] // read by every call and replaced by Update: a mutex would be one more for all to share
}

// Acquire implements limit.Limiter.
func (v *valve) Acquire(ctx context.Context) (limit.Permit, error) {
	p, err := v.now.Load().Acquire(ctx)
	if err != nil {
		return p, owned(err, v.own)
	}
	return p, nil
}

// set makes v limit as g does. A gate of the same kind is changed in place, so that the
// calls it admitted still count.
func (v *valve) set(g *gate) {
	if was := v.now.Load(); was != nil && was.change != nil && was.kind == g.kind && was.change(g.bounds) == nil {
		return
	}
	v.now.Store(g)
}

// Stats is what weirhttp reads: of the current gate. Permits of the previous gate are not
// included.
func (v *valve) Stats() limit.AdaptiveStats { return v.now.Load().stats() }

// callGate returns the gate of u's calls.
func (u Upstream) callGate(storm func(limit.Storm)) (*gate, error) {
	return newGate(u.Name, u.Adaptive, bounds{cmp.Or(u.Concurrency, 256), u.Queue, u.QueueWait, u.OverloadAfter, u.MaxRetryAfter, u.MinConcurrency, storm})
}

// streamGate returns the gate of u's upgrades and event streams, which have no queue.
func (u Upstream) streamGate() (*gate, error) {
	return newGate(u.Name+" streams", false, bounds{n: cmp.Or(u.Streams, 1024), queue: -1})
}

// sameCalls reports whether the calls of u and o are limited alike.
func (u Upstream) sameCalls(o Upstream) bool {
	return u.Concurrency == o.Concurrency && u.Adaptive == o.Adaptive && u.Queue == o.Queue &&
		u.QueueWait == o.QueueWait && u.OverloadAfter == o.OverloadAfter && u.MaxRetryAfter == o.MaxRetryAfter && u.MinConcurrency == o.MinConcurrency
}

// fairByClient returns the tenants of a route with that priority, which stands above them.
func fairByClient(client weirhttp.Client, class limit.Priority) func(*http.Request) limit.Tenant {
	tenant := weirhttp.TenantByAddress(client)
	return func(r *http.Request) limit.Tenant {
		t := tenant(r)
		t.Class = class
		return t
	}
}
