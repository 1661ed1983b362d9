package weir

import (
	"context"
	"time"
)

// A Source is what a Guard stands before, with the hooks that know the types
// of its keys and values. [NewFrom] takes it; [New] is the short form for a
// Source with a Load and nothing else.
//
// A Source loads either plain values, by Load and LoadMany, or entries that
// decide for themselves, by LoadEntry and LoadEntries. At least one function must
// be set, and only functions of one of the two kinds: otherwise whether an entry
// has its tags would depend on which call loaded it. The functions run on the
// Guard's goroutines, several at a time. They must respect their context;
// Options.LoadTimeout says what happens with one that does not.
type Source[K comparable, V any] struct {
	// Load returns the value of one key. It returns ErrNotFound, or an error
	// that Options.Classify maps to it, for a key that the source does not
	// have.
	Load func(ctx context.Context, key K) (V, error)

	// LoadEntry is a Load that also decides what becomes of its value: how
	// long it is kept, under which tags, or not at all. It gets the
	// previous value, so that it can ask the source whether that still holds.
	// With an error that is not-found, the TTL and Tags of the returned Entry
	// are those of the negative answer.
	LoadEntry func(ctx context.Context, key K, prev Previous[V]) (Entry[V], error)

	// LoadMany returns the values of several keys in one call: for GetMany, for
	// refreshes that are due together, and without Load for single keys too.
	//
	// Every key in the map has a value, even if that is the zero V: leave out
	// the keys that the source does not have. Without an error a missing key is
	// not found. With an error the keys in the map are loaded, and the missing
	// ones have failed with it. [KeyErrors] are errors of single keys, alone or
	// joined with another error. Keys that were not asked for are ignored. The
	// function must not keep keys or the map.
	//
	// With Options.Batch it also loads the keys that Get and Refresh miss. One
	// that is alone when its turn comes goes to Load if there is one.
	LoadMany func(ctx context.Context, keys []K) (map[K]V, error)

	// LoadEntries is LoadMany for entries that decide what becomes of them, as
	// LoadEntry is a Load. prev[i] is what the Guard still knows about keys[i];
	// its OK is false where there is nothing. Each Entry counts as if LoadEntry
	// had returned it: an Entry that is NotModified although the key has no
	// previous value fails that key with ErrNotModified, and the zero Entry is
	// the zero V with the durations of the Options.
	//
	// A key that KeyErrors says is not found may be in the map as well: TTL,
	// Tags and NoStore of its Entry are those of the negative answer. Otherwise
	// the Entry of a key that has failed is ignored. The function must not keep
	// keys, prev or the map.
	//
	// With Options.Batch it also loads the keys that Get and Refresh miss. One
	// that is alone when its turn comes goes to LoadEntry if there is one.
	LoadEntries func(ctx context.Context, keys []K, prev []Previous[V]) (map[K]Entry[V], error)

	// BatchScope names, with Options.Batch, what a key may be loaded together
	// with: keys whose scopes are not equal (==) are never in one call of
	// LoadMany or LoadEntries, also of GetMany. It is the place for the tenant. It is called
	// on the callers' goroutines and must not block. A key whose scope cannot
	// be compared, or is unequal to itself, goes alone. Nil: there is one
	// scope. Without Options.Batch it is a fault, since nothing would keep the
	// scopes apart.
	BatchScope func(K) any

	// Clone copies a value for each call that returns it, for Set, and for the
	// previous value of LoadEntry and LoadEntries. Without it they all share one value and
	// must not change it.
	Clone func(V) V

	// Weigh returns the weight of a value, in the unit of Options.MaxWeight.
	// A weight of 0 counts as 1.
	Weigh func(K, V) uint32

	// KeyString names a key for the fleet, see Options.Fleet. It must be
	// injective: two keys with one name would get each other's values. Nil: keys
	// that are strings or integers name themselves, others cannot be shared. It
	// must not block.
	KeyString func(K) string

	// LoadContext returns the context whose values the load sees, derived
	// from that of the caller who started it, or from context.Background. It
	// is the place to strip an identity that must not decide an answer which
	// others share. Its deadline and cancellation are ignored.
	LoadContext func(ctx context.Context) context.Context
}

// A Previous is what a Guard still knows about a key when it is loaded again,
// however old it is.
type Previous[V any] struct {
	OK      bool // there is a previous value
	Value   V
	Version string        // as Entry.Version was
	Age     time.Duration // since the load that made the value ended
}

// An Entry is a value and what is to become of it. In the durations, zero is
// the Guard's option and a negative value ([None]) is none. With a TTL of None
// the value is never fresh, and not kept unless the Entry names a stale window:
// then it may be served stale, and is the Previous of the next load.
type Entry[V any] struct {
	Value V

	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	// Tags name the entry for InvalidateTags.
	Tags []string

	// Weight is the entry's weight, in the unit of Options.MaxWeight. Zero
	// asks Source.Weigh.
	Weight uint32

	// Version is handed to the next load of the key, as an ETag or a row
	// version is.
	Version string

	// NoStore keeps the value for the callers that waited for it only. An entry that
	// is in memory already is removed.
	NoStore bool

	// NotModified says that the previous value still holds: it is kept for
	// another TTL, Value is ignored, and Tags and Version, where empty, are
	// those it had.
	NotModified bool
}

// bulk reports whether s loads several keys in one call.
func (s *Source[K, V]) bulk() bool { return s.LoadMany != nil || s.LoadEntries != nil }

// single reports whether s has a function for one key.
func (s *Source[K, V]) single() bool { return s.Load != nil || s.LoadEntry != nil }
