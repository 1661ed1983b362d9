package weir

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Policy changes the Options for one call, see [Guard.GetWith]. The zero
// Policy changes nothing. Fields can be combined, except OnlyCached with
// Bypass.
type Policy struct {
	// MaxAge is the greatest age of a value, or a not-found, that the call
	// accepts, whether it is fresh, stale or served instead of an error: see
	// Result.Age. The result of a load that the call starts or joins is always
	// accepted. Zero: any age. Negative is an OptionError.
	MaxAge time.Duration

	// With OnlyCached the call starts and joins no load, not even a refresh, and
	// does not ask the Tier. Without a value that may be served the error is
	// ErrNotCached. That is also the Cause of a value within StaleIfError.
	OnlyCached bool

	// With Bypass the call does not answer from memory: it starts a load, or
	// joins a running one, even one whose function was called before this call.
	// If the load fails, the call gets the value in memory, fresh or within
	// StaleIfError, with Result.Cause. To read your own write, Invalidate its
	// key: Bypass may return an older value.
	Bypass bool

	// With NoStale the call accepts no stale value: neither within
	// StaleWhileRevalidate nor instead of an error or a long wait.
	NoStale bool

	// SoftTimeout replaces Options.SoftTimeout. Zero: it does not. Negative:
	// none.
	SoftTimeout time.Duration

	// Priority is the call's class in the limiter's queue, as
	// limit.ContextWithPriority sets it. Zero (limit.Normal): that of the context.
	Priority limit.Priority
}

// GetWith is [Guard.GetResult] under a policy for this call. An invalid policy is
// an OptionError in the Result. docs/reference/call-policies.md describes how
// each field works with running loads, invalidations and the fleet.
func (g *Guard[K, V]) GetWith(ctx context.Context, key K, p Policy) Result[V] {
	if p == (Policy{}) {
		return g.GetResult(ctx, key)
	}
	if err := p.validate(); err != nil {
		return Result[V]{Err: err}
	}
	if p.Priority != limit.Normal {
		ctx = limit.ContextWithPriority(ctx, p.Priority)
	}
	return handOn(ctx, g, g.getWith(ctx, key, p))
}

func (p *Policy) validate() error {
	if p.MaxAge >= 0 && !(p.OnlyCached && p.Bypass) {
		return nil
	}
	c := newChecks()
	c.duration("Policy.MaxAge", p.MaxAge)
	c.Check(!p.OnlyCached || !p.Bypass, "Policy.OnlyCached", true, "false with Bypass")
	return c.Err()
}

// getWith is get under a policy, which is valid.
func (g *Guard[K, V]) getWith(ctx context.Context, key K, p Policy) Result[V] {
	if g.hot != nil {
		g.asked(key, rand.Uint64(), g.clock())
	}
	c := call[K, V]{g: g, ctx: ctx, key: key, policy: p, forced: p.Bypass}
	for {
		var e *entry[V]
		now := g.clock()
		if !c.forced {
			e = g.lookup(key)
			if r, ok := c.fromMemory(e, now); ok {
				if !p.OnlyCached {
					g.refresh(ctx, e, now, key)
				}
				return r
			}
		}
		if p.OnlyCached {
			return c.notCached()
		}
		var r Result[V]
		if ok := c.load(e, now, &r); ok && c.fits(r) {
			return r
		} else if ok {
			c.forced = true // values that other instances have loaded are not accepted
		}
	}
}

// fromMemory is Guard.fromMemory under the call's policy.
func (c *call[K, V]) fromMemory(e *entry[V], now instant) (Result[V], bool) {
	g := c.g
	if e == nil {
		return Result[V]{}, false
	}
	if !c.tooOld(e, now) && (now < e.freshUntil || !c.policy.NoStale) {
		return g.fromMemory(c.ctx, c.key, e, now, c.counted)
	}
	if failing := e.failing(now); failing != nil && !g.closed.Load() && now >= e.freshUntil {
		once(&g.count.memoHits, c.counted)
		return Result[V]{Err: failing.err, Source: FromMemory}, true
	}
	return Result[V]{}, false
}

// notCached answers an OnlyCached call that memory cannot answer.
func (c *call[K, V]) notCached() Result[V] {
	c.counts(&c.g.count.rejected)
	if err := checkKey(c.key); err != nil {
		return Result[V]{Err: err}
	}
	if c.g.closed.Load() {
		return Result[V]{Err: ErrClosed}
	}
	var r Result[V]
	c.fail(ErrNotCached, &r)
	return r
}

// tooOld reports whether the call's policy excludes e for its age.
func (c *call[K, V]) tooOld(e *entry[V], now instant) bool {
	return c.policy.MaxAge > 0 && now-e.loadedAt > int64(c.policy.MaxAge)
}

// renews reports whether e, which may be nil, is loaded again because of the
// call's policy: then the fleet's copy of it is not accepted.
func (c *call[K, V]) renews(e *entry[V]) bool {
	return e != nil && (c.policy.MaxAge > 0 || c.policy.NoStale)
}

// servesOnError reports whether e, which may be nil, may stand in for a failed
// load, for this call.
func (c *call[K, V]) servesOnError(e *entry[V], now instant) bool {
	return e.servesOnError(now) && !c.tooOld(e, now) && (!c.policy.NoStale || now < e.freshUntil && !c.forced)
}

// softTimeout is how long the call waits if there is a value to serve; 0 means
// that it has no soft timeout.
func (c *call[K, V]) softTimeout() time.Duration {
	return max(choose(c.policy.SoftTimeout, c.g.o.SoftTimeout), 0)
}

// fits reports whether the call accepts r, the answer of a flight. The Tier may have
// answered the flight, for callers that accept more: a value from before the call is no
// result of a load to a forced call.
func (c *call[K, V]) fits(r Result[V]) bool {
	p := &c.policy
	if r.Source == FromTier && r.State == StateStale && p.NoStale {
		return false // an expiry overtook it
	}
	if r.Source != FromTier || r.Age <= time.Duration(c.g.clock()-c.came) { // loaded since the call began
		return true
	}
	return !p.Bypass && (p.MaxAge <= 0 || r.Age <= p.MaxAge)
}
