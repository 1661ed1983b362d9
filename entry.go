package weir

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// An instant is a time on the Guard's own clock: nanoseconds since New, from
// the monotonic clock, so that a step of the wall clock has no effect.
type instant = int64

const (
	longAgo  instant = math.MinInt64
	farAhead instant = math.MaxInt64 // as refreshFrom: a refresh is in flight
	horizon  instant = farAhead / 2  // the latest end of freshness, in 146 years, so that the stale windows keep their lengths
)

// later returns t+d, or farAhead if that overflows. d is not negative.
func later(t instant, d time.Duration) instant {
	if s := t + int64(d); s >= t {
		return s
	}
	return farAhead
}

// An entry is what memory holds for a key. Once stored it does not change, except for refreshFrom,
// failures and extra.due. The fields that a hit reads come first, and with a one-word value an
// entry has 64 bytes, so that a hit touches one cache line.
type entry[V any] struct {
	// refreshFrom is the instant from which a Get tries to start a refresh, or
	// with RefreshBeta draws for one. Every Get reads it, so it is atomic; it
	// moves to farAhead by compare-and-swap, which elects the one Get that
	// starts the refresh.
	refreshFrom atomic.Int64
	freshUntil  instant
	extra       *extra // nil for most entries
	value       V

	loadedAt   instant // the end of its load
	staleUntil instant // end of stale-while-revalidate, at least freshUntil
	errorUntil instant // end of stale-if-error, at least staleUntil
	weight     uint32
	took       loadTime // of the load that made it, or of an earlier one; zero without RefreshBeta
	kind       kind
	failures   uint8 // guarded by the table's lock: loads in a row that have failed since it was stored
}

type kind uint8

const (
	kindValue    kind = iota
	kindNegative      // extra.err is the answer, until freshUntil
	kindFailure       // nothing but extra.memo
)

// extra holds fields that few entries need.
type extra struct {
	tags    []*tag
	seq     uint64 // with tags: the count of invalidations when the load began
	version string
	cost    int32         // of its load, in the unit of Source.Cost; 0: not counted
	fence   uint64        // of the fleet's lease or write that made it; 0: none
	err     error         // of a negative entry
	due     *atomic.Int64 // of a negative entry: its refreshFrom; nil: it is not refreshed
	memo    memo
}

// A memo is an error that callers get instead of a load.
type memo struct {
	err   error
	until instant
	row   int // consecutive failures
}

// quick reports whether a Get may return the value without further checks: it
// is fresh and needs no refresh. Negative entries and failures never are.
func (e *entry[V]) quick(now instant) bool {
	return now < e.refreshFrom.Load() && now < e.freshUntil && !e.outdated()
}

// outdated reports whether one of the entry's tags was invalidated after its
// load began.
func (e *entry[V]) outdated() bool {
	if e.extra == nil {
		return false
	}
	for _, t := range e.extra.tags {
		if t.seq.Load() > e.extra.seq {
			return true
		}
	}
	return false
}

// overtakenLocked reports whether one of the entry's tags was invalidated, or has
// expired, after its load began: it may not be stored. The table's lock must be
// held.
func (e *entry[V]) overtakenLocked() bool {
	return e.outdated() || e.extra != nil && slices.ContainsFunc(e.extra.tags, func(t *tag) bool { return t.expired > e.extra.seq })
}

// servesOnError reports whether e may stand in for a failed load.
func (e *entry[V]) servesOnError(now instant) bool {
	return e != nil && e.kind == kindValue && now < e.errorUntil
}

// replaces reports whether e, which may be nil, is as new as other, which may be nil, or
// has what other has not: the memo of a failure without a value.
func (e *entry[V]) replaces(other *entry[V]) bool {
	return e != nil && (other == nil || e.kind == kindFailure || e.loadedAt >= other.loadedAt)
}

// failing returns the memo that stops loads of the entry's key now, or nil.
func (e *entry[V]) failing(now instant) *memo {
	if e == nil || e.extra == nil || e.extra.memo.err == nil || now >= e.extra.memo.until {
		return nil
	}
	return &e.extra.memo
}

// previous returns e as a load's Previous.
func (e *entry[V]) previous(now instant) Previous[V] {
	if e == nil || e.kind != kindValue {
		return Previous[V]{}
	}
	p := Previous[V]{OK: true, Value: e.value, Age: time.Duration(now - e.loadedAt)}
	if e.extra != nil {
		p.Version = e.extra.version
	}
	return p
}

// newEntry makes the entry of a value loaded or set at now, by a load that took
// took.
func newEntry[V any](o *Options, in Entry[V], now instant, took loadTime) *entry[V] {
	e := &entry[V]{value: in.Value, loadedAt: now, weight: max(in.Weight, 1), took: took}
	ttl := choose(in.TTL, o.TTL)
	if o.TTLJitter > 0 {
		ttl -= time.Duration(float64(ttl) * o.TTLJitter * rand.Float64())
	}
	e.freshUntil = min(later(now, ttl), horizon)
	e.staleUntil = later(e.freshUntil, choose(in.StaleWhileRevalidate, o.StaleWhileRevalidate))
	e.errorUntil = max(e.staleUntil, later(e.freshUntil, choose(in.StaleIfError, o.StaleIfError)))
	e.refreshFrom.Store(refreshFrom(o, e))
	return e
}

// refreshFrom returns the instant from which hits on e start a refresh. The
// other instants of e must be set.
func refreshFrom[V any](o *Options, e *entry[V]) instant {
	switch {
	case o.RefreshBeta > 0:
		return e.drawFrom(o.RefreshBeta)
	case o.RefreshAhead > 0:
		share := o.RefreshAhead + o.RefreshJitter*rand.Float64() // at most 1
		return e.freshUntil - instant(float64(e.freshUntil-e.loadedAt)*share)
	}
	return e.freshUntil
}

// renewed returns in, which reports e's value as unmodified, with that value
// and with the other fields that in takes from e.
func (e *entry[V]) renewed(in Entry[V]) Entry[V] {
	in.Value = e.value
	if in.Weight == 0 {
		in.Weight = e.weight
	}
	if e.extra != nil {
		if in.Version == "" {
			in.Version = e.extra.version
		}
		if in.Tags == nil {
			in.Tags = tagNames(e.extra.tags)
		}
	}
	return in
}

// newNegative makes the entry of a not-found answer from a load that took took.
func newNegative[V any](o *Options, ttl time.Duration, err error, now instant, took loadTime) *entry[V] {
	e := &entry[V]{loadedAt: now, weight: 1, took: took, kind: kindNegative, extra: &extra{err: err}}
	e.freshUntil = min(later(now, ttl), horizon)
	e.staleUntil, e.errorUntil = e.freshUntil, e.freshUntil
	e.refreshNegative(o)
	return e
}

// refreshNegative sets the instant from which hits on e start a refresh. e is
// negative and its other instants are set. Its refreshFrom is long ago, so that
// no hit is quick.
func (e *entry[V]) refreshNegative(o *Options) {
	e.refreshFrom.Store(longAgo)
	if o.RefreshAhead > 0 || o.RefreshBeta > 0 {
		e.extra.due = new(atomic.Int64)
		e.extra.due.Store(min(refreshFrom(o, e), farAhead-1)) // never, unless elected
	}
}

// due is the instant from which hits on e start a refresh; nil if they never do.
func (e *entry[V]) due() *atomic.Int64 {
	if e.kind == kindNegative {
		return e.extra.due
	}
	return &e.refreshFrom
}

// failedLocked counts a failed load of e, which may be nil, and returns the
// number of consecutive failures. The table's lock must be held.
func (e *entry[V]) failedLocked() int {
	if e == nil {
		return 1
	}
	if e.failures < math.MaxUint8 {
		e.failures++
	}
	return int(e.failures)
}

// withMemo returns a copy of e with m. e may be nil.
func (e *entry[V]) withMemo(m memo) *entry[V] {
	var c *entry[V]
	if e != nil && e.kind == kindValue {
		c = e.clone()
	} else {
		c = &entry[V]{kind: kindFailure, freshUntil: longAgo, staleUntil: longAgo, errorUntil: longAgo, weight: 1, extra: &extra{}}
		c.refreshFrom.Store(longAgo)
	}
	c.extra.memo = m
	return c
}

// expired returns a copy of e whose freshness ends at now. Its stale windows
// keep their lengths, counted from now, but end no later than before. It drops
// a remembered failure, so that the next Get loads.
func (e *entry[V]) expired(now instant) *entry[V] {
	c := e.clone()
	c.extra.memo, c.failures = memo{}, 0
	c.freshUntil = min(e.freshUntil, now)
	c.staleUntil = min(e.staleUntil, later(c.freshUntil, time.Duration(e.staleUntil-e.freshUntil)))
	c.errorUntil = min(e.errorUntil, later(c.freshUntil, time.Duration(e.errorUntil-e.freshUntil)))
	c.refreshFrom.Store(c.freshUntil)
	return c
}

// clone returns a copy of e with its own extra.
func (e *entry[V]) clone() *entry[V] {
	c := &entry[V]{
		value: e.value, loadedAt: e.loadedAt,
		freshUntil: e.freshUntil, staleUntil: e.staleUntil, errorUntil: e.errorUntil,
		weight: e.weight, took: e.took, kind: e.kind, failures: e.failures, extra: &extra{},
	}
	if e.extra != nil {
		*c.extra = *e.extra
	}
	c.refreshFrom.Store(e.refreshFrom.Load())
	return c
}

// choose returns an entry's own duration, or the Guard's if that is zero. A
// negative one means none and gives zero.
func choose(own, guard time.Duration) time.Duration {
	if own == 0 {
		return guard
	}
	return max(own, 0)
}
