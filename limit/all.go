package limit

import (
	"context"
	"sync"
	"sync/atomic"
)

// All returns a Limiter that lets in who is let in by each of limiters, asked
// in the order given. When one refuses, or ctx ends, the permits of those
// before it are released with Unused, latest first, so that a RateLimiter has
// its token back, and the error is returned as it came.
//
// The permit of an earlier one is held while a later one makes the caller
// wait. So a RateLimiter goes before a Concurrency: a token does not mind
// waiting, while permits that wait for tokens would be missing elsewhere and
// be measured as slow.
//
// Without limiters everybody is let in. A nil Limiter panics. limiters is
// copied.
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

// Parts returns the limiters that l asks: those that were given to [All], and of
// those that are an All themselves its parts, in their order; or l alone. Consoles
// and collectors of metrics look at each. Of a nil Limiter there are none.
func Parts(l Limiter) []Limiter {
	a, ok := l.(*all)
	switch {
	case l == nil:
		return nil
	case !ok:
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

// A bundle is the permits behind one permit of an all. It is used again and
// again; turn tells the copies of an old permit from the present one.
type bundle struct {
	turn    atomic.Uint64 // not a mutex: the one who moves it on owns the rest until the bundle is pooled
	permits []Permit
	pool    *sync.Pool
}

// Acquire implements Limiter.
func (a *all) Acquire(ctx context.Context) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	b, _ := a.pool.Get().(*bundle)
	if b == nil {
		b = &bundle{pool: &a.pool, permits: make([]Permit, 0, len(a.limiters))}
	}
	p := Permit{from: b, id: b.turn.Load()}
	admitted := false
	defer func() { // deferred, as a Limiter from elsewhere may panic
		if !admitted {
			p.Release(Unused)
		}
	}()
	for _, l := range a.limiters {
		q, err := l.Acquire(ctx)
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
	if !b.turn.CompareAndSwap(turn, turn+1) {
		return
	}
	b.releaseLast(o)
}

// releaseLast releases all permits, the latest first. The others are deferred, as
// a Limiter from elsewhere may panic or exit.
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
