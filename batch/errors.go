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

// Errors of Do, in addition to the error of Run, the cause of the caller's context and
// a *limit.Error.
var (
	// ErrUnknown is matched by the error of a caller that left, or was dropped by
	// the Batcher, after its item had started: the item may have run, or may still
	// be running. Any other error means that the item never ran, or is the result
	// of Run for it. The exceptions are *PanicError, ErrGoexit and ErrResults.
	ErrUnknown = errors.New("batch: the item may have run")

	// ErrClosed is returned by Do after Close. It is also the cause with which
	// Close cancels bulk calls.
	ErrClosed = errors.New("batch: the batcher is closed")

	// ErrStuck is returned when all slots are taken by bulk calls that have
	// exceeded Options.Timeout and not returned.
	ErrStuck = errors.New("batch: all bulk calls hang")

	// ErrScope is returned for an item whose scope is not comparable or is not
	// equal to itself.
	ErrScope = errors.New("batch: the scope is not comparable")

	// ErrResults is returned to all callers of a bulk call that returned the
	// wrong number of results or Errors.
	ErrResults = errors.New("batch: wrong number of results")

	// ErrAbandoned is the cause with which a bulk call is canceled when all
	// its callers have left. No caller receives it.
	ErrAbandoned = flight.ErrAbandoned

	// ErrGoexit is returned when the bulk call called runtime.Goexit.
	ErrGoexit = flight.ErrGoexit
)

// A PanicError is returned to all callers of a bulk call that panicked.
type PanicError = flight.PanicError

// Errors is returned by Run when some items failed: its ith entry is the error of the
// ith item, or nil if that succeeded. Run may wrap it, and join it with another error:
// the items with a nil entry have then failed with that other error.
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

// split extracts the Errors from err, even if it is wrapped or joined. It returns the
// remaining errors as rest, or nil if there are none. rest does not match the error of
// any single item. If err contains no Errors, rest is err itself.
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

// with combines e and more without changing either. If both have an error for an
// item, the result joins the two.
func (e Errors) with(more Errors) Errors {
	if len(more) != len(e) && e != nil {
		return make(Errors, max(len(e), len(more))+1) // a wrong length, for ErrResults
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

// or returns a copy of e with err for each item that has no error.
func (e Errors) or(err error) Errors {
	all := slices.Clone(e)
	for i := range all {
		if all[i] == nil {
			all[i] = err
		}
	}
	return all
}

// An UnknownError is returned to a caller whose item had started when the caller
// left, or when Close canceled the bulk call. It matches ErrUnknown.
type UnknownError struct {
	Cause error // why the result is unknown
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
	After time.Duration // the Timeout that was exceeded
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("batch: the bulk call took longer than %v", e.After)
}

// Is matches ErrUnknown and context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrUnknown || target == context.DeadlineExceeded
}

// Timeout returns true, like the method of net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// A CloseError is returned by Close when its context ended before all bulk
// calls had returned.
type CloseError struct {
	Canceled int   // batches, running or not yet started, that Close canceled
	Running  int   // bulk calls that ignore their cancellation
	Cause    error // why Close stopped waiting
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("batch: close: %d bulk calls canceled, %d ignore it: %v", e.Canceled, e.Running, e.Cause)
}

// Unwrap returns the cause.
func (e *CloseError) Unwrap() error { return e.Cause }

// fault returns the error for a call that did not return. recovered is the result of
// recover in a deferred function, which must also call fault, so that the stack of the
// panic is still there.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}
