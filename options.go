package weir

import (
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/limit"
)

// Never is an Options.AbandonGrace with which loads run to their end.
const Never = flight.Never

// None, as a duration in an [Entry], means no time at all; zero means the
// Guard's option.
const None time.Duration = -1

// The defaults of Options.
const (
	DefaultLoadTimeout     = 30 * time.Second // of Options.LoadTimeout
	DefaultRefreshRetry    = time.Second      // of Options.RefreshRetry
	DefaultRefreshRetryMax = 30 * time.Second // of Options.RefreshRetryMax
	DefaultRefreshJitter   = 0.1              // of Options.RefreshJitter, with RefreshAhead
	DefaultMaxRetryAfter   = time.Minute      // of Options.MaxRetryAfter
	DefaultMaxEntries      = 100_000          // of Options.MaxEntries, without MaxWeight
	DefaultMaxRefreshes    = 64               // of Options.MaxRefreshes
	DefaultMaxStuck        = 64               // of Options.MaxStuck
	DefaultBatchParallel   = 4                // of Batching.MaxParallel
)

// MaxRefreshAhead is the maximum of Options.RefreshAhead.
const MaxRefreshAhead = 0.5

// MaxHotKeys is the maximum of Options.HotKeys.
const MaxHotKeys = hotkeys.Max

// Options configure how a Guard keeps values and how much load its source gets.
// The zero Options coalesce calls and keep nothing. A Guard copies its Options;
// they are not altered.
//
// An entry passes four instants, counted from the end of its load (with
// RefreshBeta a draw replaces the first):
//
//	load ── TTL-RefreshAhead·TTL ── TTL ── TTL+StaleWhileRevalidate ── TTL+StaleIfError ──
//	   hit     hit, and a               stale value at once,    a load is tried; if it      load
//	           background refresh       background refresh      fails, the stale value
type Options struct {
	// Name is the Guard's name in metrics, traces and logs.
	Name string

	// TTL is how long a value is fresh. Zero: no value is kept unless its Entry
	// has a TTL, and calls are only coalesced. A value is served beyond it only
	// within one of the stale windows below.
	TTL time.Duration

	// TTLJitter is the largest share of the TTL, from 0 to 0.5, that is
	// subtracted at random from each entry, so that entries loaded together do
	// not expire together. Zero: none.
	TTLJitter float64

	// RefreshAhead is the share of the TTL, counted from its end, in which a
	// hit starts a refresh in the background: with 0.2, in the last fifth. The
	// same applies to a negative answer and its NegativeTTL. Zero: off. At most
	// MaxRefreshAhead, 0.5.
	RefreshAhead float64

	// A random part of RefreshJitter is added to each entry's RefreshAhead, so
	// that entries loaded together are not refreshed together: with 0.2 and a
	// jitter of 0.1, the refresh starts in the last 20 to 30 % of the TTL. Zero:
	// DefaultRefreshJitter, or RefreshAhead if that is less. Negative: none. At
	// most 0.5, and without RefreshAhead 0.
	RefreshJitter float64

	// RefreshBeta, instead of RefreshAhead, makes each hit draw whether it
	// starts a refresh: XFetch of Vattani, Chierichetti and Lowenstein,
	// "Optimal Probabilistic Cache Stampede Prevention", PVLDB 8(8), 2015. A
	// hit does if the remaining TTL is at most -RefreshBeta·d·ln(U), with d the
	// measured time of the load that made the value and U uniform in (0, 1]. So
	// a slow load starts earlier than a quick one, a busy key is refreshed
	// earlier than a rarely used one, and neither needs tuning: 1 is the
	// paper's choice, a larger value refreshes earlier. If loads take as long
	// as the TTL, almost every hit would start one, but a key still has one at
	// a time. It must be finite, and RefreshAhead must be zero. Zero: off.
	//
	// d is the running time of the function, without the wait for the limiter,
	// and the same for all keys of a bulk load. Each load measures it again,
	// including one that returns NotModified. A value that was Set has the d of
	// the one it replaces; if there is none, or its load took no time, it is
	// not refreshed before its TTL. Negative answers are refreshed likewise.
	RefreshBeta float64

	// RefreshRetry is how long a key is not refreshed after its background
	// refresh has failed. It doubles with each consecutive failure of the key, up
	// to RefreshRetryMax, and is reset by a success, Set or Expire. It needs no
	// jitter, because a refresh starts with a hit. A refresh that the Limiter
	// refused has cost the source nothing; it waits for RefreshRetry each time.
	// Zero: DefaultRefreshRetry.
	RefreshRetry time.Duration

	// RefreshRetryMax bounds the growing RefreshRetry. It must be at least
	// RefreshRetry; if the two are equal, the delay does not grow. Zero:
	// DefaultRefreshRetryMax, or RefreshRetry if that is more.
	RefreshRetryMax time.Duration

	// StaleWhileRevalidate is how long after the TTL a value is still served
	// at once, while a background load replaces it (RFC 5861, section 3).
	StaleWhileRevalidate time.Duration

	// StaleIfError is how long after the TTL a value is still served when the
	// load fails, is refused or takes longer than SoftTimeout (RFC 5861,
	// section 4). A failed load never extends it. If it is less than
	// StaleWhileRevalidate it has no effect.
	StaleIfError time.Duration

	// NegativeTTL is how long ErrNotFound is kept as an answer (as in RFC
	// 2308). RefreshAhead and RefreshBeta refresh it before it ends; the stale
	// windows are for values only. Zero: it is not kept.
	NegativeTTL time.Duration

	// FailureMemo is how long other errors are kept. Zero: they are not, unless the
	// source has stated for how long (see [RetryAfter]).
	FailureMemo FailureMemo

	// MaxRetryAfter bounds for how long the Guard does not call its source because a load
	// has returned a [RetryAfter]. Zero: DefaultMaxRetryAfter. Negative: such an error is
	// like any other.
	MaxRetryAfter time.Duration

	// LoadTimeout is the hard limit of one load, counted from its admission.
	// After it, callers get a *TimeoutError or a stale value, the load's
	// context ends, and the next caller may load again. Zero:
	// DefaultLoadTimeout. Negative: none, so that a hung load keeps its key
	// until its callers have left.
	//
	// A load that has not returned by then is stuck: it keeps its permit, and
	// is counted in Stats.Stuck.
	LoadTimeout time.Duration

	// SoftTimeout is how long callers wait for a load before they get a stale
	// value within StaleIfError. The load continues. Zero: they wait for the
	// load.
	//
	// A caller with a deadline gets the stale value when 5 % of its time is left,
	// and at least 1 ms, with or without a SoftTimeout. A canceled caller leaves
	// at once. Refresh, which returns no stale value, waits.
	SoftTimeout time.Duration

	// AbandonGrace says what happens to a load when its last caller has left.
	// Zero: its context is canceled at once. Positive: it is canceled after
	// that time, unless a caller joins it. Negative (Never): it runs to its end
	// and its value is kept.
	AbandonGrace time.Duration

	// MaxEntries bounds the entries in memory. It may be exceeded briefly, by
	// at most 1,024 entries. Entries too old to be served stay until they are
	// loaded again or evicted. Zero: DefaultMaxEntries, unless MaxWeight is
	// set.
	MaxEntries int

	// MaxWeight bounds the sum of the entries' weights instead; the weights
	// come from Source.Weigh or Entry.Weight, and are 1 otherwise. An entry
	// heavier than the whole bound is not kept, and is counted in
	// Stats.TooHeavy.
	MaxWeight uint64

	// MaxRefreshes bounds the background loads that run at once. Beyond it a
	// refresh is skipped and counted; the value is still served. Zero:
	// DefaultMaxRefreshes.
	MaxRefreshes int

	// MaxStuck bounds the loads that have outlived LoadTimeout without
	// returning. When it is reached, a new load fails at once with ErrStuck.
	// Zero: DefaultMaxStuck.
	MaxStuck int

	// Batch gathers single misses into bulk loads, and needs Source.LoadMany
	// or LoadEntries. Zero: off.
	Batch Batching

	// Limiter admits loads: a limit.Concurrency, a limit.RateLimiter, several combined with
	// limit.All, or one shared with other Guards. Hits and callers that join a load need no
	// permit. A load that calls another Guard with the same Concurrency or Adaptive, using its
	// context, lends it its permit: to one flight at a time, until both have ended. With nil or
	// limit.All() every load is admitted.
	Limiter limit.Limiter

	// Classify returns the class of a load's error. It is not called for errors
	// that match ErrNotFound or context.Canceled, nor for the Guard's own. Nil:
	// all others are ClassTransient. It must not block.
	//
	// It also classifies a not-found that the load got from a Guard, for this or
	// another key, by a call with its context, however the load wraps it,
	// because a user without an avatar is not a missing user. Return
	// ClassNotFound to pass it on, as happens without a Classify.
	Classify func(error) Class

	// Fleet shares values, leases, failures and invalidations with the other
	// instances of a service. The zero Fleet is off.
	Fleet Fleet

	// HotKeys is how many of the busiest keys Guard.HotKeys can return, by traffic
	// and by load time, at most MaxHotKeys. For each of them the Guard keeps eight
	// counters of both kinds with their keys, whether those are in memory or not.
	// A hit costs a few nanoseconds more. Zero or negative: none, at no cost.
	HotKeys int

	// Observer is notified of what happens. Nil costs nothing. See [Observers] for
	// several.
	Observer Observer
	// ReportEvictions reports each eviction to the Observer, as EventEvicted, on a
	// goroutine of the store, for which Close does not wait. With it every write
	// that replaces or removes an entry starts a goroutine.
	ReportEvictions bool
}

// A FailureMemo is how long the Guard keeps an error, by class, and returns it
// to callers instead of a new load. The time counts from the end of the failed
// load. A caller's own cancellation is never kept, nor is a refusal.
type FailureMemo struct {
	// A Backoff for each Class of an error.
	Transient Backoff
	Permanent Backoff
	Overload  Backoff
}

// A Backoff is a time that doubles with each consecutive failure of the same
// key.
type Backoff struct {
	Initial time.Duration // zero: the error is not kept
	Max     time.Duration // zero: Initial, so that it does not grow
}

// after returns the time for the nth consecutive failure, n from 1.
func (b Backoff) after(n int) time.Duration {
	if b.Initial == 0 {
		return 0
	}
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
	o.MaxRetryAfter = orDefault(o.MaxRetryAfter, DefaultMaxRetryAfter)
	o.LoadTimeout = orDefault(o.LoadTimeout, DefaultLoadTimeout)
	o.MaxRefreshes = orDefault(o.MaxRefreshes, DefaultMaxRefreshes)
	o.MaxStuck = orDefault(o.MaxStuck, DefaultMaxStuck)
	o.Batch.MaxParallel = orDefault(o.Batch.MaxParallel, DefaultBatchParallel)
	if o.Fleet.Tier != nil && o.Fleet.MaxKeep == 0 {
		o.Fleet.MaxKeep = max(fleet.DefaultMaxKeep, o.TTL) // fresh values are kept
	}
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
