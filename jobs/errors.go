package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/flight"
)

var (
	// ErrFull is the sentinel of Submit's refusals: every [*FullError] matches it.
	ErrFull = errors.New("jobs: full")

	// ErrConflict is returned by Submit if a job with the same key has a different
	// input, and by Retry and Drop if the job's state does not allow them.
	ErrConflict = errors.New("jobs: conflict")

	// ErrTooLarge is returned by Submit if the input is larger than
	// QueueOptions.MaxInput. An attempt whose result is larger than MaxResult fails
	// the job with it.
	ErrTooLarge = errors.New("jobs: too large")

	// ErrNotFound: the job does not exist, or no longer.
	ErrNotFound = errors.New("jobs: not found")

	// ErrFinished is returned by Cancel if the job was over before.
	ErrFinished = errors.New("jobs: finished already")

	// ErrCanceled is returned by Wait for a job that was canceled. It is also the
	// cause of the context of an attempt whose job was canceled.
	ErrCanceled = errors.New("jobs: canceled")

	// ErrLeaseLost is the cause of an attempt's context when another attempt has
	// replaced it, or may have: its result will not be kept.
	ErrLeaseLost = errors.New("jobs: lease lost")

	// ErrStopping is the cause of an attempt's context when its Worker has to stop
	// and has no time left. The job is handed back, and the attempt does not count.
	ErrStopping = errors.New("jobs: worker stopping")

	// ErrTimeout is the cause of an attempt's context after
	// QueueOptions.AttemptTimeout.
	ErrTimeout = errors.New("jobs: attempt timed out")

	// ErrExpired is the error of a job whose SubmitOptions.Deadline passed before it
	// was started.
	ErrExpired = errors.New("jobs: deadline passed before the start")

	// ErrUnavailable: the server cannot be reached, or does not respond in time. The
	// operation may or may not have happened; a Submit with a Key can safely be
	// repeated.
	ErrUnavailable = errors.New("jobs: server unavailable")

	// ErrClosed: the Store is closed.
	ErrClosed = errors.New("jobs: closed")
)

// A FullError is a refusal by Submit. Nothing of the job was stored.
type FullError struct {
	Queue  string     // name of the queue
	Reason FullReason // which bound the queue has reached
	// RetryAfter is the suggested wait before the next try, between 1 and 10 seconds. It
	// is uniform between an estimate from how fast the queue drains and twice that, so
	// that callers that were refused together do not come back together.
	RetryAfter time.Duration
}

// A FullReason is the limit that a Submit reached.
type FullReason string

const (
	FullLength FullReason = "queue length" // QueueOptions.MaxQueued
	FullAge    FullReason = "queue age"    // QueueOptions.MaxAge
	FullStore  FullReason = "store"        // StoreOptions.MaxBytes, or the server's disk
)

// Error names the queue, the limit and the time to wait.
func (e *FullError) Error() string {
	return fmt.Sprintf("jobs: queue %q is full: %s, retry after %v", e.Queue, e.Reason, e.RetryAfter)
}

// Is reports whether target is ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// A JobError is what Wait returns for a job that has failed or is dead.
type JobError struct {
	ID      string // ID of the job
	State   State  // StateFailed or StateDead
	Attempt int    // of the last one
	Message string // text of the last attempt's error
}

// Error names the job, its state, the number of attempts and the error.
func (e *JobError) Error() string {
	return fmt.Sprintf("jobs: job %s is %s after %d attempts: %s", e.ID, e.State, e.Attempt, e.Message)
}

// A PanicError is the error of an attempt whose handler panicked. It does not match the
// errors that Value matches.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the panic, as formatted by runtime/debug.Stack
}

// Error returns a text without the stack, because the job's status has it. It has the
// first line of Value's text.
func (e *PanicError) Error() string {
	text, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return "handler panicked: " + text
}

// Unwrap returns a [*flight.PanicError], in which logs find the stack of any panic.
func (e *PanicError) Unwrap() error { return &flight.PanicError{Value: e.Value, Stack: e.Stack} }

// Permanent marks err as one that no retry will fix: a handler that returns it fails
// its job at once. It unwraps to err. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// NotBegun wraps the error of a handler that has not started its work. The job is
// handed back and the attempt does not count, even if only one is allowed. If the
// Worker is stopping, other Workers can take the job at once; otherwise it waits as
// after a failure. The result unwraps to err. NotBegun(nil) is nil.
func NotBegun(err error) error {
	if err == nil {
		return nil
	}
	return &notBegunError{err}
}

type notBegunError struct{ err error }

func (e *notBegunError) Error() string { return e.err.Error() }
func (e *notBegunError) Unwrap() error { return e.err }

// Snooze is the error of a handler whose job cannot run yet, for example because
// what it works on is not ready. The job is handed back and starts again after d,
// from 0 to MaxDelay; values outside count as the nearest bound. The attempt does
// not count, even if only one is allowed, and the snooze is no failure: it is counted in
// Status.Snoozes, and QueueOptions.MaxSnoozes bounds it.
//
// SubmitOptions.Deadline still applies to a job whose attempts have all been
// snoozed: if it cannot start again in time, it fails with ErrExpired at once. A handler
// that returns Snooze after AttemptTimeout has timed out.
func Snooze(d time.Duration) error { return &snoozeError{min(max(d, 0), MaxDelay)} }

type snoozeError struct{ d time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.d) }

// RetryIn returns err with the wait before the next attempt, d, which replaces the
// one computed from QueueOptions.RetryInitial. It unwraps to err. RetryIn(nil, d) is
// nil.
func RetryIn(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryInError{err, d}
}

type retryInError struct {
	err error
	d   time.Duration
}

func (e *retryInError) Error() string { return e.err.Error() }
func (e *retryInError) Unwrap() error { return e.err }
