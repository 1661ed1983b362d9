package fleet

import (
	"context"
	"time"
)

// A Tier is a store that the instances of a service share: values, the right to load
// a key, failures, invalidations, and limits. Engines implement it (package
// weirredis), and [Memory] does for tests and a single process. Each implementation
// passes the suite of package fleettest.
//
// Every method is one round trip, atomic for its key, and ends within the Tier's own
// deadline, whatever ctx says. If that deadline passes or the engine is unreachable,
// the error matches [ErrUnavailable], and the operation may or may not have happened.
// All instants are by the engine's clock: only durations are transmitted, so a wrong
// clock of an instance has no effect. A Tier is safe for concurrent use, and retains
// neither the keys nor the bytes passed to it. Implementations embed a [BaseTier].
type Tier interface {
	// Acquire requests the value of k, or the right to load it.
	Acquire(ctx context.Context, k Key, a Ask) (Answer, error)

	// Extend prolongs a lease to d from now. It reports false if the lease is
	// lost: it ended, or the key was written. A lease that ended without a
	// successor is not revived.
	Extend(ctx context.Context, k Key, fence uint64, d time.Duration) (bool, error)

	// Settle ends the lease with the result of the load. It reports false, and
	// changes nothing, if fence is not the key's last one, because another lease was
	// granted or the key was written since. A lease that has only expired still
	// counts.
	Settle(ctx context.Context, k Key, fence uint64, o Outcome) (bool, error)

	// Write sets, expires or removes k for all instances, ends its lease and its
	// cooling, and advances its fence, so that no load that began before can settle.
	// It returns the new fence.
	Write(ctx context.Context, k Key, w Write) (uint64, error)

	// Tags returns the state of the invalidations by tag of a namespace.
	Tags(ctx context.Context, namespace string, tags []string) (TagState, error)

	// InvalidateTags counts one more invalidation, records it for the tags, and
	// returns its number: max(last + 1, the engine's time in µs), so that numbers
	// also grow across a restart that lost them. The records are kept for at least
	// keep, which must be the longest time that entries are kept. The tag "" stands
	// for the whole namespace.
	InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error)

	// ExpireTags is InvalidateTags for entries that may still be served stale: it
	// records its number separately, in TagState.Expired, and Watchers get Expired.
	// Both take their numbers from one sequence.
	ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error)

	// Watch reports to w the changes in a namespace, by any instance, from its return
	// until stop is called. Calls of w are made one after another, soon after the
	// change. They can be lost with a connection; then w gets Reset. No call is made
	// after stop has returned, so w must not call stop.
	Watch(namespace string, w Watcher) (stop func(), err error)

	// Abilities returns the optional features of the Tier. They never change.
	Abilities() Abilities

	// embedded is implemented by [BaseTier].
	embedded()
}

// A Key identifies a value: Namespace is a Guard's or a gateway's, and Name is the name of
// the key in it. Both may be any bytes. Tiers keep all state of one key together.
type Key struct{ Namespace, Name string }

// An Ask holds the parameters of Acquire.
type Ask struct {
	// NewerThan makes entries with this fence or a lower one count as stale: a caller
	// that refreshes an entry requests a newer one. [AnyFence]: every entry is stale.
	// Zero: any fresh entry will do.
	NewerThan uint64

	// Joined makes entries with this fence or a higher one count as fresh, whatever
	// their age and NewerThan, unless a Write has expired them. An instance that got
	// GrantHeld and waited for that load shares its result this way. Zero: none.
	Joined uint64

	// Lease is how long the right to load is granted. It is positive, and at most
	// MaxLease.
	Lease time.Duration

	// Cooled requests a lease even while the key cools after a failure.
	Cooled bool

	// Push reports that a pushed value would have made this Ask unnecessary: the Tier
	// counts it to decide about later pushes, see Entry.Push.
	Push bool
}

// AnyFence, as Ask.NewerThan, makes every entry count as stale.
const AnyFence = ^uint64(0)

// Bounds that every Tier has.
const (
	MaxLease = time.Hour // the longest lease that Acquire or Extend grants
	MaxName  = 4 << 10   // bytes of Key.Name and of a namespace
	MaxTags  = 256       // tags of one call of InvalidateTags or ExpireTags
)

// A Grant is the part of an Answer about the lease.
type Grant uint8

const (
	// GrantFresh: there is a fresh entry; no lease was needed.
	GrantFresh Grant = 1 + iota
	// GrantLease: the caller has the lease. It may load, and must Settle.
	GrantLease
	// GrantHeld: another instance holds the lease.
	GrantHeld
	// GrantCooling: the last load failed recently.
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
	Grant Grant // whether the caller has the lease, or why not

	// Fence is, with GrantLease, the fence of the caller's lease: the next number of
	// the key, max(last + 1, the engine's time in µs), higher than all before. With
	// GrantHeld it is the fence of the other lease.
	Fence uint64

	// Remaining is the remaining time of the other lease, or of the cooling.
	Remaining time.Duration

	// Entry is the stored entry of the key, fresh or not; nil if there is none.
	Entry *Entry

	// Failure is why the key cools.
	Failure Failure

	// Now is the engine's time in µs, the unit of fences and invalidation numbers:
	// the difference to one of them is its age.
	Now uint64
}

// An Entry is what a Tier stores for a key. The bytes are a [Value] in the form of
// [Value.AppendBinary], which a Tier does not interpret.
type Entry struct {
	Data  []byte // the encoded value
	Fence uint64 // of the lease it was loaded under, or of the Write

	// Fresh is how much longer it is fresh; if negative, how long it has been stale.
	Fresh time.Duration

	// Until, if not 0, is the engine's time in µs at which its freshness ends at the
	// latest, whatever Fresh is: Fresh counts from the moment in which the Tier receives
	// the entry, which may be long after it was sent. Only Settle uses it.
	Until uint64

	// Keep is the maximum time from now that it is stored. Only Settle and Write use
	// it.
	Keep time.Duration

	// Push lets the Tier push Data to the Watchers, with Watcher.Pushed, if that is
	// likely to save the engine more than it costs. Only Settle and Write use it. A
	// Tier pushes the values of a key that was requested by others: if it gave, since
	// the key's last store, as many GrantFresh and GrantHeld to Asks with Push as
	// PushPays returns, it pushes the next value, and PushRun more before it counts
	// again. A Tier may also never push values.
	Push bool
}

// A Failure describes a load that failed.
type Failure struct {
	// Kind is the sender's name for the class of the error, at most 64 bytes.
	Kind string
	// Text is the error's message, cut at MaxFailureText bytes.
	Text string
}

// Uncacheable is the Failure.Kind of a load whose result must not be shared: while
// the key cools, each instance loads it separately, without a lease.
const Uncacheable = "uncacheable"

// MaxFailureText bounds Failure.Text, in bytes.
const MaxFailureText = 1 << 10

// An Outcome is the result of a load: an Entry; or, without one, a failure if Cool is
// positive; or nothing, because the load was abandoned.
type Outcome struct {
	Entry   *Entry  // its Fence is not looked at
	Failure Failure // the failure of the load, if it failed

	// Cool is how long no instance should load the key after its first failure in a
	// row. It doubles with each further one, up to MaxCool. Remove drops a stored
	// Entry.
	Cool, MaxCool time.Duration
	Remove        bool
}

// A Write changes a key for all instances.
type Write struct {
	// Entry is what to set. Nil: see Expire.
	Entry *Entry // its Fence is not looked at
	// Expire keeps the stored entry but makes it stale now. Without Expire and
	// without an Entry, the stored entry is removed.
	Expire bool
}

// A TagState is the state of the invalidations by tag.
type TagState struct {
	Last    uint64   // number of the last InvalidateTags or ExpireTags of the namespace
	Each    []uint64 // of the last InvalidateTags of each requested tag; 0: never, or forgotten
	Expired []uint64 // of the last ExpireTags, in the same way
}

// A Watcher is notified of changes. Its methods are called one after another and must
// return soon. It must tolerate redundant calls, for example for changes that its own
// instance has made.
type Watcher interface {
	// Changed: the key has a new entry, or, if removed is set, no earlier entry may
	// be used any more. All entries with a lower fence are out of date.
	Changed(name string, fence uint64, removed bool)

	// Pushed: the key has the new entry e, by the engine's time now (as Answer.Now).
	// Changed reports it, too, usually next. A Watcher may retain e.Data, and must not
	// modify it.
	Pushed(name string, e Entry, now uint64)

	// Released: a lease has ended and left no new entry.
	Released(name string)

	// Tagged: a tag was invalidated, "" for all of the namespace.
	Tagged(tag string, seq uint64)

	// Expired: the entries of a tag have become stale, "" for all of the namespace.
	Expired(tag string, seq uint64)

	// Lost: the engine is unreachable. Calls may be missing until Reset or Recovered.
	Lost()

	// Recovered: the engine responds again, and no call was missed, because it was
	// slow but reachable (Abilities.KeepsPushes). If Watchers distrusted everything
	// in memory here, they would request all of it again from an engine that was too
	// slow a moment ago.
	Recovered()

	// Reset: earlier changes may not have been reported.
	Reset()
}

// A Meter counts permits for the whole fleet: see [Abilities].
type Meter interface {
	// Take takes up to n permits of k by the generic cell rate algorithm (ITU-T
	// I.371), and never more than the rate and burst allow by the engine's clock.
	Take(ctx context.Context, k Key, r Rate, n int) (Taken, error)
}

// A Rate is Permits per Per, with up to Burst at once.
type Rate struct {
	Permits int           // at least 1
	Per     time.Duration // positive
	Burst   int           // at least 1
}

// A Taken is the result of [Meter]'s Take: how many permits the engine has given.
type Taken struct {
	Permits    int           // from 0 to n
	RetryAfter time.Duration // if Permits is 0: the time until there is one

	// Replaced reports that the key had a value that is not a limiter's, for example of
	// another program. It was replaced, and the limiter began with all its permits.
	Replaced bool
}
