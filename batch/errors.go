package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weir-go/weir/flight"
)

// Errors of Do, beside what Run returns, the cause of the caller's context and
// a *limit.Error.
var (
	// ErrUnknown is matched by the errors of a caller that went away, or was
	// sent away, when its item had departed: the item may have been run, or may
	// still be. What does not match it, a *PanicError, ErrGoexit or ErrResults
	// apart, says that the item was never run, or what Run said of it.
	ErrUnknown = errors.New("batch: the item may have been run")

	// ErrClosed is returned by Do after Close. It is also the cause with which
	// Close cancels bulk calls.
	ErrClosed = errors.New("batch: the batcher is closed")

	// ErrStuck is returned when all places are taken by bulk calls that have
	// outlived Options.Timeout and not returned.
	ErrStuck = errors.New("batch: all bulk calls hang")

	// ErrScope is returned for an item whose scope cannot be compared or is
	// not equal to itself.
	ErrScope = errors.New("batch: the scope is not comparable")

	// ErrResults is returned to all callers of a bulk call that gave a wrong
	// number of results or of Errors.
	ErrResults = errors.New("batch: wrong number of results")

	// ErrAbandoned is the cause with which a bulk call is canceled when all
	// its callers have left. No caller receives it.
	ErrAbandoned = flight.ErrAbandoned

	// ErrGoexit is returned when the bulk call called runtime.Goexit.
	ErrGoexit = flight.ErrGoexit
)

// A PanicError is returned to all callers of a bulk call that panicked.
type PanicError = flight.PanicError

// Errors is what Run returns when it failed for some items: its ith entry is
// the error of the ith item, nil if that succeeded. Run may wrap it, and join it
// with another error: then the items for which it has nil have failed with that.
type Errors []error

func (e Errors) Error() string {
	n := 0
	var first error
	for _, err := range e {
		if err != nil {
			n++
			if first == nil {
				first = err
			}
		}
	}
	if n == 0 {
		return "batch: no item failed"
	}
	return fmt.Sprintf("batch: %d of %d items failed, the first: %v", n, len(e), first)
}

// Unwrap returns the errors that are not nil.
func (e Errors) Unwrap() []error {
	var errs []error
	for _, err := range e {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// split takes the Errors out of err, however it is wrapped and joined, and
// returns what is left, nil for nothing. What is left must not match the error of
// a single item. Without Errors, err stays as it was made.
func split(err error) (errs Errors, rest error, partial bool) {
	switch e := err.(type) {
	case Errors:
		return e, nil, true
	case interface{ Unwrap() []error }:
		var left []error
		for _, part := range e.Unwrap() {
			own, other, found := split(part)
			if found {
				errs, partial = errs.with(own), true
			}
			if other != nil {
				left = append(left, other)
			}
		}
		if partial {
			return errs, errors.Join(left...), true
		}
	case interface{ Unwrap() error }:
		if errs, rest, partial = split(e.Unwrap()); partial {
			return errs, rest, true
		}
	}
	return nil, err, false
}

// with returns e and more; neither is altered. Where both have an error for an
// item, it has both.
func (e Errors) with(more Errors) Errors {
	if len(more) != len(e) && e != nil {
		return make(Errors, max(len(e), len(more))+1) // of no use: ErrResults
	}
	all := make(Errors, len(more))
	for i, err := range more {
		switch {
		case e == nil || e[i] == nil:
			all[i] = err
		case err == nil:
			all[i] = e[i]
		default:
			all[i] = errors.Join(e[i], err)
		}
	}
	return all
}

// or returns e with err for each item that has none.
func (e Errors) or(err error) Errors {
	all := slices.Clone(e)
	for i := range all {
		if all[i] == nil {
			all[i] = err
		}
	}
	return all
}

// An UnknownError is returned to a caller whose item had departed when the
// caller left, or when Close canceled the bulk call. It matches ErrUnknown.
type UnknownError struct {
	Cause error // why the caller does not know
}

func (e *UnknownError) Error() string { return ErrUnknown.Error() + ": " + e.Cause.Error() }

// Is reports whether target is ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Cause }

// A TimeoutError is returned to all callers of a bulk call that took longer
// than Options.Timeout, and is the cause of its cancellation. It matches
// ErrUnknown and context.DeadlineExceeded.
type TimeoutError struct {
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("batch: the bulk call took longer than %v", e.After)
}

// Is matches ErrUnknown and context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrUnknown || target == context.DeadlineExceeded
}

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// A CloseError is returned by Close when its context ended before all bulk
// calls had returned.
type CloseError struct {
	Canceled int   // bulk calls, running or gathered, that Close gave up
	Running  int   // bulk calls that ignore their cancellation
	Cause    error // why the waiting ended
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("batch: close: %d bulk calls canceled, %d ignore it: %v", e.Canceled, e.Running, e.Cause)
}

// Unwrap returns the cause.
func (e *CloseError) Unwrap() error { return e.Cause }

// fault turns what a deferred function recovered from a call that did not
// return into an error. It must be called while the stack still stands.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}
