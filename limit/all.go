package limit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/wait"
)

// All returns a Limiter that admits a caller once each of limiters has admitted it,
// in the given order. If one rejects the caller, or ctx ends, the permits acquired
// so far are released with Unused, latest first, so that a RateLimiter gets its token
// back. The error is returned unchanged.
//
// The permits of earlier limiters are held while a later one makes the caller wait.
// So put a RateLimiter before a Concurrency: a token loses nothing by waiting, while
// a permit that waits for a token is withheld from other callers and measured as a
// slow call. [Validate], which the options of weir and weirhttp call, reports the other order.
//
// Its AcquireN acquires n units from each UnitLimiter; wrap those that count calls in
// [PerCall].
//
// Without limiters, every caller is admitted. All panics if a Limiter is nil. It
// copies limiters.
func All(limiters ...Limiter) Limiter {
	for _, l := range limiters {
		if l == nil {
			panic("limit: All with a nil Limiter")
		}
	}
	if len(limiters) == 1 {
		return limiters[0]
	}
	return &all{limiters: append([]Limiter(nil), limiters...)}
}

// Parts returns the limiters that l consists of: those passed to [All], in their
// order and with nested Alls expanded, or only l if it is not an All. It is for
// consoles and metrics collectors, which show each limiter. For a nil Limiter it
// returns nil.
func Parts(l Limiter) []Limiter {
	a, ok := l.(*all)
	switch {
	case l == nil:
		return nil
	case !ok:
		if p, ok := l.(perCall); ok {
			return Parts(p.Limiter)
		}
		return []Limiter{l}
	}
	var parts []Limiter
	for _, part := range a.limiters {
		parts = append(parts, Parts(part)...)
	}
	return parts
}

type all struct {
	limiters []Limiter
	pool     sync.Pool // of *bundle
}

// A bundle holds the permits behind one permit of an all. Bundles are reused; turn
// distinguishes the current permit from copies of earlier ones.
type bundle struct {
	turn    atomic.Uint64 // not under mu: Acquire reads it; the release that increments it owns the rest until the bundle is pooled
	mu      sync.Mutex    // held while a release increments turn, so that a settle does not meet permits of a later turn
	permits []Permit
	pool    *sync.Pool
}

// Acquire implements Limiter.
func (a *all) Acquire(ctx context.Context) (Permit, error) {
	return a.acquire(ctx, Limiter.Acquire)
}

// AcquireN implements UnitLimiter: each limiter counts n units, if it can.
func (a *all) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return a.acquire(ctx, func(l Limiter, ctx context.Context) (Permit, error) { return AcquireN(ctx, l, n) })
}

func (a *all) acquire(ctx context.Context, from func(Limiter, context.Context) (Permit, error)) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, wait.Cause(ctx)
	}
	b, _ := a.pool.Get().(*bundle)
	if b == nil {
		b = &bundle{pool: &a.pool, permits: make([]Permit, 0, len(a.limiters))}
	}
	p := Permit{from: b, id: b.turn.Load()}
	admitted := false
	defer func() { // deferred, because a Limiter from another package can panic
		if !admitted {
			p.Release(Unused)
		}
	}()
	for _, l := range a.limiters {
		q, err := from(l, ctx)
		if err != nil {
			return Permit{}, err
		}
		b.permits = append(b.permits, q)
	}
	admitted = true
	return p, nil
}

// release implements releaser.
func (b *bundle) release(turn uint64, o Outcome) {
	b.mu.Lock()
	first := b.turn.CompareAndSwap(turn, turn+1)
	b.mu.Unlock()
	if first {
		b.releaseLast(o)
	}
}

// settle implements releaser.
func (b *bundle) settle(turn uint64, units int) {
	for _, p := range b.held(turn) {
		p.Settle(units)
	}
}

// abandon implements releaser.
func (b *bundle) abandon(turn uint64) {
	for _, p := range b.held(turn) {
		p.Abandon()
	}
}

// held returns the permits of a turn, none if it is over. It copies them under the lock: a
// release cannot begin to take them apart meanwhile, and afterwards they do nothing.
func (b *bundle) held(turn uint64) []Permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn.Load() != turn {
		return nil
	}
	return slices.Clone(b.permits)
}

// releaseLast releases all permits, the latest first. It defers the release of the
// others, because a Limiter from another package can panic or exit the goroutine.
func (b *bundle) releaseLast(o Outcome) {
	last := len(b.permits) - 1
	if last < 0 {
		b.pool.Put(b)
		return
	}
	defer b.releaseLast(o)
	p := b.permits[last]
	b.permits[last] = Permit{}
	b.permits = b.permits[:last]
	p.Release(o)
}
