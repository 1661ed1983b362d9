package weir

import "time"

// A Result is the answer to one call, with how it was obtained.
type Result[V any] struct {
	Value V     // the value, or the zero value if there is none
	Err   error // error of this key, nil if there is a value

	// State is the kind of answer; StateNone if Err is a failure.
	State State

	// Source is where the answer came from.
	Source Origin

	// Age is the time since the load that made the value ended.
	Age time.Duration

	// FreshFor is how long the answer, a value or a not-found, is still fresh:
	// the max-age that a handler may promise. It is zero for an answer that is
	// stale, superseded or not to be stored, and for a failure. An invalidation
	// may end it earlier.
	FreshFor time.Duration

	// Joined reports that the call waited for a load that another call, or a
	// background refresh, had started.
	Joined bool

	// Superseded reports that a call of Set, Invalidate, Expire, InvalidateTags or
	// InvalidateAll came while the value was loaded. It was current when the
	// call began, and is not kept.
	Superseded bool

	// Cause is the reason why a stale value was served: the error that it
	// replaced.
	Cause error

	extra *extra // of the entry: its version and tags; nil for most
}

// Version returns the Version that the loader gave the value in its Entry. It is
// empty if the loader gave none.
func (r Result[V]) Version() string {
	if r.extra == nil {
		return ""
	}
	return r.extra.version
}

// Tags returns the tags of the entry, nil if it has none. The slice is the
// caller's own.
func (r Result[V]) Tags() []string {
	if r.extra == nil || len(r.extra.tags) == 0 {
		return nil
	}
	return tagNames(r.extra.tags)
}

// A State says whether a Result was fresh, stale, negative or just loaded.
type State uint8

const (
	// StateNone: no value and no negative answer; see Result.Err.
	StateNone State = iota
	// StateFresh: from memory, within its TTL.
	StateFresh
	// StateStale: from memory, within the stale-while-revalidate window.
	StateStale
	// StateStaleOnError: from memory, within the stale-if-error window, since
	// the load failed, was refused or is slow; see Result.Cause.
	StateStaleOnError
	// StateNegative: the source does not have the key; Result.Err matches
	// ErrNotFound.
	StateNegative
	// StateLoaded: loaded for this call and those that joined it.
	StateLoaded
)

func (s State) String() string {
	switch s {
	case StateNone:
		return "none"
	case StateFresh:
		return "fresh"
	case StateStale:
		return "stale"
	case StateStaleOnError:
		return "stale on error"
	case StateNegative:
		return "negative"
	case StateLoaded:
		return "loaded"
	}
	return "unknown"
}

// An Origin says where a Result came from: memory, a load, or the fleet.
type Origin uint8

const (
	// FromNone: there is no answer.
	FromNone Origin = iota
	// FromMemory: the Guard's own memory.
	FromMemory
	// FromTier: the fleet's shared tier.
	FromTier
	// FromLoad: the source.
	FromLoad
)

func (o Origin) String() string {
	switch o {
	case FromNone:
		return "none"
	case FromMemory:
		return "memory"
	case FromTier:
		return "tier"
	case FromLoad:
		return "load"
	}
	return "unknown"
}
