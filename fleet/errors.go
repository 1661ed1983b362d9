package fleet

import (
	"errors"
	"fmt"
)

// ErrUnavailable matches every error of a Tier that says nothing about the request:
// the engine is down, slow, cut off, or its breaker is open. Instances then continue
// without the fleet.
var ErrUnavailable = errors.New("fleet: the tier is unavailable")

// An UnavailableError gives the reason why a Tier is unavailable. It matches
// [ErrUnavailable] and its cause.
type UnavailableError struct {
	Op  string // "acquire", "settle", ...; "breaker" if the engine was not called
	Err error  // the cause
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("fleet: %s: the tier is unavailable: %v", e.Op, e.Err)
}

// Is matches ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// A PendingError is the error of an invalidation that the engine has not
// acknowledged. This instance has applied it, keeps it queued, and sends it again
// until the engine accepts it. Until then this instance uses no response of the
// engine that the invalidation affects. Other instances may serve the old value for
// at most the lifetime of its entry. If Close returns a PendingError, it has given
// up, and the queued invalidations are lost. It matches [ErrUnavailable] and its
// cause.
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

// A RemoteError is the failure of a load that ran in another instance.
type RemoteError struct{ Failure }

func (e *RemoteError) Error() string { return e.Text }
