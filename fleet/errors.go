package fleet

import (
	"errors"
	"fmt"
)

// ErrUnavailable matches every error of a Tier that says nothing about what was
// asked: the engine is down, slow, cut off, or its breaker is open. Instances
// then go on alone.
var ErrUnavailable = errors.New("fleet: the tier is unavailable")

// An UnavailableError says why a Tier is unavailable. It matches
// [ErrUnavailable] and its cause.
type UnavailableError struct {
	Op  string // "acquire", "settle", ...; "breaker" if nothing was asked
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("fleet: %s: the tier is unavailable: %v", e.Op, e.Err)
}

// Is matches ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// A RemoteError is the failure of a load that another instance has run.
type RemoteError struct{ Failure }

func (e *RemoteError) Error() string { return e.Text }
