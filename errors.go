package weir

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/weir-go/weir/flight"
)

// Errors of a Guard. Those of the load itself reach the callers unchanged.
var (
	// A load returns ErrNotFound for a key that the source does not have. Get
	// then returns it, from the source or from memory (see
	// Options.NegativeTTL). Options.Classify maps other errors to it; they
	// match ErrNotFound and themselves.
	ErrNotFound = errors.New("weir: not found")

	// ErrClosed is returned after Close by every call that is not answered by
	// a fresh value.
	ErrClosed = errors.New("weir: the guard is closed")

	// ErrStuck is returned when as many loads hang as Options.MaxStuck allows
	// and there is no stale value to serve.
	ErrStuck = errors.New("weir: too many loads hang")

	// ErrNotModified is returned when Source.LoadEntry or LoadEntries reports an
	// unmodified value although it was given no previous one.
	ErrNotModified = errors.New("weir: not modified, but there is no previous value")

	// ErrNotStored is returned by Set, SetMany, SetEntry and SetNotFound when
	// nothing was stored: a value without a TTL and a stale window, a not-found
	// without NegativeTTL, an entry heavier than Options.MaxWeight, or one with
	// NoStore. The entry that memory had for the key is gone and a running load is
	// overtaken, as with any Set.
	ErrNotStored = errors.New("weir: not stored")

	// ErrNotCached is returned to a call whose Policy is OnlyCached, if memory has
	// no value that may be served.
	ErrNotCached = errors.New("weir: not cached")

	// ErrTag is returned by InvalidateTags of a Guard in a fleet for an empty tag.
	ErrTag = errors.New("weir: a tag is empty")

	// ErrLeaseLost is returned, and is the cause of the load's cancellation, when
	// the fleet's lease was lost and Fleet.CancelLost is set.
	ErrLeaseLost = errors.New("weir: the fleet's lease was lost")

	// ErrAbandoned is the cause of a load's cancellation when its last caller
	// has left. No caller receives it.
	ErrAbandoned = flight.ErrAbandoned

	// ErrGoexit is returned when the load called runtime.Goexit.
	ErrGoexit = flight.ErrGoexit

	// ErrRecursive is returned to a load that asks the Guard, through the
	// context it was given, for a key that it is loading.
	ErrRecursive = flight.ErrRecursive

	// ErrKey is returned for a key that is not equal to itself (NaN).
	ErrKey = flight.ErrKey
)

// A PanicError is returned when the load panicked.
type PanicError = flight.PanicError

// A TimeoutError is returned when a load took longer than Options.LoadTimeout.
// It is also the cause of that load's cancellation, and the cause in a Result
// that was served stale because of Options.SoftTimeout, or because the caller's
// own deadline was near. It matches context.DeadlineExceeded.
type TimeoutError struct {
	After  time.Duration // the LoadTimeout or SoftTimeout that was exceeded
	Soft   bool          // the soft timeout: the load goes on
	Caller bool          // the limit was this caller's own, because its deadline was near; only with Soft
}

func (e *TimeoutError) Error() string {
	if e.Caller {
		return fmt.Sprintf("weir: the load takes longer than its caller can wait, %v", e.After)
	}
	if e.Soft {
		return fmt.Sprintf("weir: the load takes longer than the soft timeout of %v", e.After)
	}
	return fmt.Sprintf("weir: the load took longer than %v", e.After)
}

// Is matches context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout returns true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// A CloseError is returned by Close when its context ended before all loads
// had returned.
type CloseError struct {
	Running   int   // loads that ignore their cancellation
	Reporting int   // loads that have ended but are still being reported to the Observer
	Cause     error // why the waiting ended
}

func (e *CloseError) Error() string {
	if e.Reporting > 0 {
		return fmt.Sprintf("weir: close: %d loads ignore their cancellation, %d are being reported to the observer: %v", e.Running, e.Reporting, e.Cause)
	}
	return fmt.Sprintf("weir: close: %d loads ignore their cancellation: %v", e.Running, e.Cause)
}

// Unwrap returns the cause.
func (e *CloseError) Unwrap() error { return e.Cause }

// notFound makes an error that Classify called not-found match ErrNotFound.
type notFound struct{ error }

func (e notFound) Is(target error) bool { return target == ErrNotFound }
func (e notFound) Unwrap() error        { return e.error }

func asNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return err
	}
	return notFound{err}
}

// fault makes an error of the value that a deferred function recovered from a
// load that did not return. Call it before the stack unwinds.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}

// joined is errors.Join, except that it returns a single error unchanged.
func joined(a, b error) error {
	if a == nil {
		return b
	} else if b == nil {
		return a
	}
	return errors.Join(a, b)
}
