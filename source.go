package weir

import (
	"context"
	"time"
)

// A Source has the functions that load a Guard's values, and the hooks that
// know the types of its keys and values. [NewFrom] takes it; [New] is the short
// form for a Source with a Load and nothing else.
//
// A Source loads either plain values, by Load and LoadMany, or entries with their
// own settings, by LoadEntry and LoadEntries. At least one function must be set,
// and only functions of one kind: otherwise an entry would have its tags or not,
// depending on the call that loaded it. The functions run on the Guard's
// goroutines, several at a time. They must respect their context;
// Options.LoadTimeout describes what happens if one does not.
type Source[K comparable, V any] struct {
	// Load returns the value of one key. It returns ErrNotFound, or an error
	// that Options.Classify maps to it, for a key that the source does not
	// have.
	Load func(ctx context.Context, key K) (V, error)

	// LoadEntry is a Load that also decides how its value is kept: how long,
	// with which tags, or not at all. It gets the previous value, so that it
	// can ask the source whether that has changed. If the error is a not-found,
	// the TTL and Tags of the returned Entry apply to the negative answer.
	LoadEntry func(ctx context.Context, key K, prev Previous[V]) (Entry[V], error)

	// LoadMany returns the values of several keys in one call: for GetMany, for
	// refreshes that are due together, and, if Load is nil, for single keys.
	//
	// Every key in the map has a value, even the zero V: leave out keys that
	// the source does not have. Without an error a missing key is not found.
	// With an error the keys in the map are loaded, and the missing ones have
	// failed with it. [KeyErrors] are errors of single keys, alone or joined
	// with another error. Keys that were not asked for are ignored. The
	// function must not keep keys or the map.
	//
	// With Options.Batch it also loads the keys that Get and Refresh miss. A
	// key that is alone when its batch runs is passed to Load, if that is set.
	LoadMany func(ctx context.Context, keys []K) (map[K]V, error)

	// LoadEntries is to LoadMany what LoadEntry is to Load. prev[i] is the
	// Guard's previous value of keys[i]; its OK is false if there is none. Each
	// Entry has the same meaning as one from LoadEntry: NotModified for a key
	// without a previous value fails that key with ErrNotModified, and the zero
	// Entry is the zero V with the durations of the Options.
	//
	// A key whose error in KeyErrors is a not-found may also be in the map:
	// TTL, Tags and NoStore of its Entry then apply to the negative answer.
	// Otherwise the Entry of a key that has failed is ignored. The function
	// must not keep keys, prev or the map.
	//
	// With Options.Batch it also loads the keys that Get and Refresh miss. A
	// key that is alone when its batch runs is passed to LoadEntry, if that is
	// set.
	LoadEntries func(ctx context.Context, keys []K, prev []Previous[V]) (map[K]Entry[V], error)

	// BatchScope, with Options.Batch, returns the scope of a key, for example its tenant, or
	// the tenant in the context of the caller that needs it. Keys whose scopes are not equal
	// (==) are never in one call of LoadMany or LoadEntries, not even for GetMany: so what
	// the scope is taken from is the same for all keys of the call, whose context has the
	// values of one of the callers. For a refresh in the background, the context is that of
	// the caller that started it. The scope does not keep callers of the same key apart: they
	// share its load and its value, so what a value depends on belongs in the key.
	//
	// It is called on the callers' goroutines and must not block. A
	// key whose scope cannot be compared, or is unequal to itself, is loaded alone. Nil: all
	// keys share one scope. Without Options.Batch it is an OptionError, because nothing
	// would keep the scopes apart.
	BatchScope func(ctx context.Context, key K) any

	// Clone copies a value for each call that returns it, for Set, and for the previous
	// value of LoadEntry and LoadEntries. Without it all callers share one value and must
	// not change it.
	Clone func(V) V

	// Weigh returns the weight of a value, in the unit of Options.MaxWeight.
	// A weight of 0 counts as 1.
	Weigh func(K, V) uint32

	// Cost estimates what loading a key costs, in units of your choice: tokens,
	// rows, cents. Options.Limiter then counts units instead of calls, if it is a
	// [limit.UnitLimiter]; what the estimate had in excess is given back after the
	// load, and what it lacked is owed (Entry.Cost). Stats.Cost counts units. 0 or
	// less counts as 1, and more than limit.MaxUnits as MaxUnits. A load of
	// several keys costs the sum, for which it has one permit. It is called on the
	// load's goroutine and must not block. Nil: cost is not counted, and the Limiter
	// counts calls.
	Cost func(K) int

	// KeyString names a key for the fleet, see Options.Fleet. It must be
	// injective: two keys with the same name would get each other's values. Nil:
	// strings and integers are their own names, and keys of other types cannot
	// be shared. It must not block.
	KeyString func(K) string

	// LoadContext returns the context whose values the load sees, derived from
	// that of the caller who started it, or from context.Background. Use it to
	// strip an identity that must not influence a shared answer. Its deadline
	// and cancellation are ignored.
	LoadContext func(ctx context.Context) context.Context
}

// A Previous is the value that a Guard still has for a key when it is loaded
// again, however old it is.
type Previous[V any] struct {
	OK      bool          // there is a previous value
	Value   V             // the value
	Version string        // as Entry.Version was
	Age     time.Duration // time since the load of the value ended
}

// An Entry is a value with its own settings. For durations, zero means the
// Guard's option and a negative value ([None]) means none. With a TTL of None
// the value is never fresh, and is kept only if the Entry sets a stale window:
// then it may be served stale, and is the Previous of the next load.
type Entry[V any] struct {
	Value V // the value

	// TTL and the stale windows replace the Guard's options for this value.
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	// Tags name the entry for InvalidateTags.
	Tags []string

	// Weight is the entry's weight, in the unit of Options.MaxWeight. Zero: the
	// result of Source.Weigh, or 1 with ErrNotFound.
	Weight uint32

	// Cost is what the load really cost, in the unit of Source.Cost, also if the
	// load returns an error. Zero: the estimate stands, for a failed load too.
	// Negative: it cost nothing. Without Source.Cost it is ignored.
	Cost int

	// Version is passed to the next load of the key, for example an ETag or a
	// row version.
	Version string

	// NoStore returns the value only to the callers that waited for it. An entry
	// already in memory is removed.
	NoStore bool

	// NotModified means that the previous value is still current: it is kept
	// for another TTL, Value is ignored, and empty Tags and Version keep the
	// previous ones.
	NotModified bool
}

// bulk reports whether s loads several keys in one call.
func (s *Source[K, V]) bulk() bool { return s.LoadMany != nil || s.LoadEntries != nil }

// single reports whether s has a function for one key.
func (s *Source[K, V]) single() bool { return s.Load != nil || s.LoadEntry != nil }
