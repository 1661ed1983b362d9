package fleet

import (
	"context"
	"time"
)

// A Tier is a store that the instances of a service share: values, the right to
// load a key, failures, invalidations, and limits. It is implemented by
// engines (package weirredis) and, for one process and tests, by [Memory]; each
// passes the suite of package fleettest.
//
// Every method is one round trip, atomic for its key, and ends within a
// deadline of the Tier's own, whatever ctx says; then, and where the engine
// cannot be reached, the error matches [ErrUnavailable], and the operation may
// or may not have happened. All instants are the engine's own clock: only
// durations travel, so that a wrong clock of an instance has no effect. A Tier
// is safe for concurrent use, and keeps neither keys nor bytes that it was
// given. Implementations embed a [BaseTier].
type Tier interface {
	// Acquire asks for the value of k, or for the right to load it.
	Acquire(ctx context.Context, k Key, a Ask) (Answer, error)

	// Extend prolongs a lease to d from now. It reports false if the lease is
	// lost: it ended, or the key was written. A lease that ended without a
	// successor is not revived.
	Extend(ctx context.Context, k Key, fence uint64, d time.Duration) (bool, error)

	// Settle ends the lease with what came of the load. It reports false, and
	// changes nothing, if fence is not the key's last: another lease was
	// granted, or the key was written, since. A lease that has only run out
	// still counts.
	Settle(ctx context.Context, k Key, fence uint64, o Outcome) (bool, error)

	// Write sets, expires or removes k for everybody, ends its lease and its
	// cooling, and moves its fence, so that a load which began before can
	// settle nothing. It returns the new fence.
	Write(ctx context.Context, k Key, w Write) (uint64, error)

	// Tags returns how the invalidations by tag of a namespace stand.
	Tags(ctx context.Context, namespace string, tags []string) (TagState, error)

	// InvalidateTags counts one more invalidation, notes it for the tags, and
	// returns its number, max(last + 1, the engine's time in µs), so that numbers
	// also grow over a restart that has lost them. The notes are kept for keep at least: as long as
	// entries are kept at most. The tag "" stands for the whole namespace.
	InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error)

	// ExpireTags is InvalidateTags for entries that may still be served stale: it
	// notes its number apart, in TagState.Expired, and Watchers get Expired.
	// The numbers of both grow together.
	ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error)

	// Watch tells w what changes in a namespace, by any instance, from when it
	// returns until stop is called. Calls are made one after another, and soon
	// after the change, but may be lost when a connection is: w gets Reset
	// then. No call is made after stop has returned, so stop must not be called
	// from one.
	Watch(namespace string, w Watcher) (stop func(), err error)

	// Abilities returns what the Tier can do besides, always the same.
	Abilities() Abilities

	// embedded is of [BaseTier].
	embedded()
}

// A Key names a value: a namespace (a Guard's, or a gateway's), and the name of
// the key in it. Both may be any bytes. Tiers keep the state of one key in one
// place.
type Key struct{ Namespace, Name string }

// An Ask says what an Acquire wants.
type Ask struct {
	// NewerThan makes entries with this fence and older ones count as stale:
	// who refreshes an entry asks for one that is newer. [AnyFence]: none will
	// do. Zero: any that is fresh.
	NewerThan uint64

	// Joined makes entries with this fence and higher ones count as fresh,
	// whatever their age, and whatever NewerThan says, but not once a Write has
	// expired them: an instance that got GrantHeld has waited for that load, and shares
	// its result. Zero: none.
	Joined uint64

	// Lease is how long the right to load is granted for. It is positive; at
	// most MaxLease.
	Lease time.Duration

	// Cooled asks for a lease also while the key cools after a failure.
	Cooled bool
}

// AnyFence, as Ask.NewerThan, makes every entry count as stale.
const AnyFence = ^uint64(0)

// Bounds that every Tier has.
const (
	MaxLease = time.Hour // of one grant; extensions are grants
	MaxName  = 4 << 10   // bytes of Key.Name and of a namespace
	MaxTags  = 256       // of one call
)

// A Grant is what an Answer says of the lease.
type Grant uint8

const (
	// GrantFresh: there is an entry within its freshness; no lease was needed.
	GrantFresh Grant = 1 + iota
	// GrantLease: the caller has the lease. It may load, and must Settle.
	GrantLease
	// GrantHeld: another holds the lease.
	GrantHeld
	// GrantCooling: the last load has failed a short while ago.
	GrantCooling
)

func (g Grant) String() string {
	switch g {
	case GrantFresh:
		return "fresh"
	case GrantLease:
		return "granted"
	case GrantHeld:
		return "held"
	case GrantCooling:
		return "cooling"
	}
	return "unknown"
}

// An Answer is what Acquire returns.
type Answer struct {
	Grant Grant

	// Fence is, with GrantLease, that of the caller's lease: the next number of the
	// key, max(last + 1, the engine's time in µs), higher than all before. If
	// GrantHeld it is that of the other's.
	Fence uint64

	// Remaining is what is left of the other's lease, or of the cooling.
	Remaining time.Duration

	// Entry is what is stored for the key, fresh or not; nil for nothing.
	Entry *Entry

	// Failure is why the key cools.
	Failure Failure

	// Now is the engine's time in µs, by which fences and numbers of invalidations
	// grow, too: so much later than one of them it is.
	Now uint64
}

// An Entry is what a Tier stores for a key. The bytes are a [Value] as
// [Value.AppendBinary] writes it, which a Tier does not look into.
type Entry struct {
	Data  []byte
	Fence uint64 // of the lease it was loaded under, or of the Write

	// Fresh is how long from now it is fresh; negative: since when it is not.
	Fresh time.Duration

	// Keep is how long from now it is stored at most. Only Settle and Write
	// look at it.
	Keep time.Duration
}

// A Failure is the end of a load that brought nothing.
type Failure struct {
	// Kind is the class of the error, as its sender names it, at most 64 bytes.
	Kind string
	// Text is the error's message, cut at MaxFailureText bytes.
	Text string
}

// Uncacheable is the Failure.Kind of a load that has an answer which is not for
// others: while the key cools, each instance loads by itself, without a lease.
const Uncacheable = "uncacheable"

// MaxFailureText bounds Failure.Text, in bytes.
const MaxFailureText = 1 << 10

// An Outcome is what came of a load: an Entry; or, without one, a failure if
// Cool is positive; or nothing, as it was given up.
type Outcome struct {
	Entry   *Entry // its Fence is not looked at
	Failure Failure

	// Cool is how long nobody else is to load the key after its first failure
	// in a row. It doubles with each further one, up to MaxCool. With Remove an
	// Entry that is stored goes.
	Cool, MaxCool time.Duration
	Remove        bool
}

// A Write changes a key for everybody.
type Write struct {
	// Entry is what to set. Nil: see Expire.
	Entry *Entry // its Fence is not looked at
	// Expire keeps the entry that is there and ends its freshness now. Without
	// it, and without an Entry, the entry is removed.
	Expire bool
}

// A TagState is how invalidations by tag stand.
type TagState struct {
	Last    uint64   // number of the last InvalidateTags or ExpireTags of the namespace
	Each    []uint64 // of the last InvalidateTags of each tag asked for; 0: never, or forgotten
	Expired []uint64 // of the last ExpireTags, likewise
}

// A Watcher is notified of changes. Its methods are called one after another
// and must return soon. They may be called too often, as of changes that the
// instance has made itself, and must bear with that.
type Watcher interface {
	// Changed: the key has a new entry, or, if removed, none that was there
	// before may be used any more. All with a lower fence are out of date.
	Changed(name string, fence uint64, removed bool)

	// Released: a lease has ended and left no new entry.
	Released(name string)

	// Tagged: a tag was invalidated, "" for all of the namespace.
	Tagged(tag string, seq uint64)

	// Expired: the entries of a tag have become stale, "" for all of the namespace.
	Expired(tag string, seq uint64)

	// Lost: the engine cannot be reached. Until Reset, or Recovered, there may be
	// no calls.
	Lost()

	// Recovered: the engine answers again, and nothing was missed, as it was slow
	// and not away (Abilities.KeepsPushes). To doubt all that memory holds would have
	// all of it asked for again, from an engine that was too slow a moment ago.
	Recovered()

	// Reset: what happened before may not have been reported.
	Reset()
}

// A Meter counts permits for the whole fleet: see [Abilities].
type Meter interface {
	// Take takes up to n permits of k by the generic cell rate algorithm (ITU-T
	// I.371), and not one more than the rate and burst allow on the engine's
	// clock.
	Take(ctx context.Context, k Key, r Rate, n int) (Taken, error)
}

// A Rate is Permits each Per, with Burst at once.
type Rate struct {
	Permits int           // at least 1
	Per     time.Duration // positive
	Burst   int           // at least 1
}

// A Taken is what Take gave.
type Taken struct {
	Permits    int           // from 0 to n
	RetryAfter time.Duration // if 0: until there is one
}
