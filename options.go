package weir

import (
	"time"

	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/limit"
)

// Never is an Options.AbandonGrace with which loads run to their end.
const Never = flight.Never

// None, in an [Entry], is a duration of none at all, where zero would be the
// Guard's option.
const None time.Duration = -1

// The defaults of Options.
const (
	DefaultLoadTimeout     = 30 * time.Second
	DefaultRefreshRetry    = time.Second
	DefaultRefreshRetryMax = 30 * time.Second
	DefaultRefreshJitter   = 0.1
	DefaultMaxEntries      = 100_000
	DefaultMaxRefreshes    = 64
	DefaultMaxStuck        = 64
	DefaultBatchParallel   = 4
)

// MaxRefreshAhead is the most that Options.RefreshAhead may be.
const MaxRefreshAhead = 0.5

// MaxHotKeys is the most that Options.HotKeys may be.
const MaxHotKeys = hotkeys.Max

// Options say how a Guard keeps values and what its source can take. The zero
// Options coalesce calls and keep nothing. A Guard copies its Options; they are
// not altered.
//
// An entry passes four instants, counted from the end of its load (RefreshBeta
// has a draw in place of the first):
//
//	load ── TTL-RefreshAhead·TTL ── TTL ── TTL+StaleWhileRevalidate ── TTL+StaleIfError ──
//	   hit     hit, and a               stale value at once,    a load is tried; if it      load
//	           background refresh       background refresh      fails, the stale value
type Options struct {
	// Name is the Guard's name in metrics, traces and logs.
	Name string

	// TTL is how long a value is fresh. Zero: no value is kept unless its Entry
	// has a TTL, and calls are only coalesced. A value is not served beyond it
	// unless one of the stale windows below says so.
	TTL time.Duration

	// TTLJitter is the share of the TTL, from 0 to 0.5, that is taken off at
	// random for each entry, so that entries made together do not expire
	// together. Zero: none.
	TTLJitter float64

	// RefreshAhead is the share of the TTL, counted from its end, in which a
	// hit starts a refresh in the background: with 0.2, in the last fifth. The
	// same goes for a negative answer and its NegativeTTL. Zero: off. At most
	// MaxRefreshAhead, 0.5.
	RefreshAhead float64

	// RefreshJitter is added to RefreshAhead, at random and up to the whole of
	// it for each entry, so that entries made together are not refreshed
	// together: with 0.2 and a jitter of 0.1, the refresh starts in the last
	// 20 to 30 % of the TTL. Zero: DefaultRefreshJitter, or RefreshAhead if that
	// is less. Negative: none. At most 0.5, and without RefreshAhead 0.
	RefreshJitter float64

	// RefreshBeta, in place of RefreshAhead, lets each hit decide by a draw
	// whether it starts a refresh: XFetch of Vattani, Chierichetti and
	// Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", PVLDB
	// 8(8), 2015. A hit does if the time left of the TTL is at most
	// -RefreshBeta·d·ln(U), with d the measured time of the load that made the
	// value and U uniform in (0, 1]. So a slow load is begun earlier than a
	// quick one, a busy key is refreshed earlier than one that is rarely asked
	// for, and nothing is to be tuned to either: 1 is the paper's choice, more
	// refreshes earlier. Where loads take as long as the TTL, about every hit
	// starts one; still there is one a key at a time. It must be finite, and
	// RefreshAhead be zero. Zero: off.
	//
	// d is the time in which the function ran, without the wait for the
	// limiter, and of all keys of a bulk load the same. It is measured again
	// by each load, by one that answers NotModified too. A value that was Set
	// has the d of the one it replaces; if there is none, or its load took no
	// time, it is not refreshed before its TTL. Negative answers are refreshed
	// likewise.
	RefreshBeta float64

	// RefreshRetry is how long a key is left alone after its background refresh
	// has failed. It doubles with each failure in a row of the key, up to
	// RefreshRetryMax, and starts over with a success, Set or Expire. There is no
	// jitter: a refresh starts with a hit. A refresh that the Limiter refused has
	// cost the source nothing; it waits for RefreshRetry each time. Zero:
	// DefaultRefreshRetry.
	RefreshRetry time.Duration

	// RefreshRetryMax bounds RefreshRetry as it grows, at least RefreshRetry, which
	// as a bound keeps it from growing. Zero: DefaultRefreshRetryMax, or
	// RefreshRetry if that is more.
	RefreshRetryMax time.Duration

	// StaleWhileRevalidate is how long after the TTL a value is still served
	// at once, while a background load replaces it (RFC 5861, section 3).
	StaleWhileRevalidate time.Duration

	// StaleIfError is how long after the TTL a value is still served when the
	// load fails, is refused or takes longer than SoftTimeout (RFC 5861,
	// section 4). A failed load never prolongs it. If it is less than
	// StaleWhileRevalidate it has no effect.
	StaleIfError time.Duration

	// NegativeTTL is how long ErrNotFound is kept as an answer (RFC 2308 has
	// the idea). RefreshAhead and RefreshBeta refresh it before it ends; the
	// stale windows are for values only. Zero: it is not kept.
	NegativeTTL time.Duration

	// FailureMemo is how long other errors are kept. Zero: they are not.
	FailureMemo FailureMemo

	// LoadTimeout is the hard bound on one load, counted from its admission.
	// After it the callers get a *TimeoutError or a stale value, the load's
	// context ends, and the next caller may load again. Zero:
	// DefaultLoadTimeout. Negative: none, so that a hung load keeps its key
	// until its callers have left.
	//
	// A load that does not return then is stuck: it keeps its permit, and is
	// counted in Stats.Stuck.
	LoadTimeout time.Duration

	// SoftTimeout is how long a load may run before callers that could be
	// served within StaleIfError are. The load goes on. Zero: they wait.
	//
	// A caller with a deadline does not wait longer than that allows: it takes the
	// stale value when 5 % of the time that it had are left, and at least 1 ms,
	// with or without a SoftTimeout. One that is canceled leaves at once. Refresh,
	// which wants no stale value, waits.
	SoftTimeout time.Duration

	// AbandonGrace says what happens to a load when its last caller has left.
	// Zero: its context is canceled at once. Positive: after that time,
	// unless somebody has joined it. Negative (Never): it runs to its end and
	// its value is kept.
	AbandonGrace time.Duration

	// MaxEntries bounds the entries in memory. For a moment there may be up
	// to 1,024 more. Entries too old to be served stay until they are loaded
	// again or make room for others. Zero: DefaultMaxEntries, unless MaxWeight
	// is set.
	MaxEntries int

	// MaxWeight bounds the sum of the entries' weights instead; the weights
	// come from Source.Weigh or Entry.Weight, and are 1 otherwise. An entry
	// that is heavier than the whole bound is not kept, and counted in
	// Stats.TooHeavy.
	MaxWeight uint64

	// MaxRefreshes bounds the background loads that run at once. Beyond it a
	// refresh is skipped and counted; the value is served all the same. Zero:
	// DefaultMaxRefreshes.
	MaxRefreshes int

	// MaxStuck bounds the loads that have outlived LoadTimeout and not
	// returned. With so many of them a new load fails at once with ErrStuck.
	// Zero: DefaultMaxStuck.
	MaxStuck int

	// Batch gathers single misses into bulk loads, and needs Source.LoadMany
	// or LoadEntries. Zero: off.
	Batch Batching

	// Limiter admits loads: a limit.Concurrency, a limit.RateLimiter, several
	// of them by limit.All, or one shared with other Guards. Hits and callers
	// that join a load never meet it. A load that asks another Guard with the
	// same Concurrency or Adaptive, through its context, lends it its permit: to
	// one flight at a time, until both have ended. Nil, and limit.All(): every load is admitted.
	Limiter limit.Limiter

	// Classify says what an error of the load means. It is not asked about
	// errors that match ErrNotFound or context.Canceled, nor about the
	// Guard's own. Nil: all others are ClassTransient. It must not block.
	//
	// It also classifies a not-found that the load got from a Guard, for this or
	// another key, by a call with its context, however the load wraps it: the
	// avatar that a user lacks does not make the user missing. Return
	// ClassNotFound to hand it on, as happens without a Classify.
	Classify func(error) Class

	// Fleet shares values, leases, failures and invalidations with the other
	// instances of a service. The zero Fleet is off.
	Fleet Fleet

	// HotKeys is how many of the busiest keys Guard.HotKeys can tell, by traffic
	// and by load time, at most MaxHotKeys. For each, eight counters of both kinds
	// are kept with their keys, whether those are in memory or not. A hit costs
	// some nanoseconds more. Zero or negative: none, at no cost.
	HotKeys int

	// Observer is notified of what happens. Nil costs nothing. See [Observers] for
	// several.
	Observer Observer
	// ReportEvictions reports each eviction to the Observer, as EventEvicted, on a
	// goroutine of the store, for which Close does not wait. Every write that
	// replaces or removes an entry costs a goroutine then.
	ReportEvictions bool
}

// A FailureMemo says how long the Guard keeps an error, by class, and gives it
// to callers in place of a new load. The time counts from the end of the
// failed load. A caller's own cancellation is never kept, nor is a refusal.
type FailureMemo struct {
	Transient Backoff
	Permanent Backoff
	Overload  Backoff
}

// A Backoff is a time that doubles with each failure in a row of the same key.
type Backoff struct {
	Initial time.Duration // zero: the error is not kept
	Max     time.Duration // zero: Initial, so that it does not grow
}

// after returns the time for the nth failure in a row, n from 1.
func (b Backoff) after(n int) time.Duration {
	d, most := b.Initial, max(b.Max, b.Initial)
	for ; n > 1 && d < most; n-- {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

func (m FailureMemo) of(c Class) Backoff {
	switch c {
	case ClassTransient:
		return m.Transient
	case ClassPermanent:
		return m.Permanent
	case ClassOverload:
		return m.Overload
	}
	return Backoff{}
}

// withDefaults returns o with its zero values replaced.
func (o Options) withDefaults() Options {
	if o.RefreshJitter == 0 {
		o.RefreshJitter = min(DefaultRefreshJitter, o.RefreshAhead)
	}
	o.RefreshJitter = max(o.RefreshJitter, 0)
	o.RefreshRetry = orDefault(o.RefreshRetry, DefaultRefreshRetry)
	o.RefreshRetryMax = max(orDefault(o.RefreshRetryMax, DefaultRefreshRetryMax), o.RefreshRetry)
	o.LoadTimeout = orDefault(o.LoadTimeout, DefaultLoadTimeout)
	o.MaxRefreshes = orDefault(o.MaxRefreshes, DefaultMaxRefreshes)
	o.MaxStuck = orDefault(o.MaxStuck, DefaultMaxStuck)
	o.Batch.MaxParallel = orDefault(o.Batch.MaxParallel, DefaultBatchParallel)
	o.Fleet = o.Fleet.withDefaults(o.Name)
	if o.MaxWeight == 0 {
		o.MaxEntries = orDefault(o.MaxEntries, DefaultMaxEntries)
	}
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
