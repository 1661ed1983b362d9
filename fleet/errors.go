package fleet

import (
	"errors"
	"fmt"
)

// ErrUnavailable matches every error of a Tier that says nothing about the
// request: the engine is down, slow, cut off, or its breaker is open. Instances
// then go on alone.
var ErrUnavailable = errors.New("fleet: the tier is unavailable")

// An UnavailableError says why a Tier is unavailable. It matches
// [ErrUnavailable] and its cause.
type UnavailableError struct {
	Op  string // "acquire", "settle", ...; "breaker" if it did not reach the engine
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("fleet: %s: the tier is unavailable: %v", e.Op, e.Err)
}

// Is matches ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// A PendingError is the error of an invalidation that the engine has not
// acknowledged. It is done in this instance, which keeps it queued, uses no answer
// of the engine that it touches, and sends it again until the engine takes it.
// Until then other instances may serve the old value, for as long as its entry
// lives at most. A Close that returns one has given up: the rest is lost. It
// matches [ErrUnavailable] and its cause.
type PendingError struct {
	// Pending is how many invalidations are queued in this instance, for this
	// namespace.
	Pending int
	Err     error // why the engine has not acknowledged this one
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("fleet: the engine has not acknowledged the invalidation, %d pending: %v", e.Pending, e.Err)
}

// Is matches ErrUnavailable.
func (e *PendingError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *PendingError) Unwrap() error { return e.Err }

// A RemoteError is the failure of a load that another instance has run.
type RemoteError struct{ Failure }

func (e *RemoteError) Error() string { return e.Text }
