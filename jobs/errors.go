package jobs

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFull is the sentinel of refusals by Submit: every [*FullError] matches
	// it.
	ErrFull = errors.New("jobs: full")

	// ErrConflict: Submit, where a job with the same key has another input, and
	// Retry and Drop, where the job is not over.
	ErrConflict = errors.New("jobs: conflict")

	// ErrTooLarge: Submit, where the input is larger than QueueOptions.MaxInput.
	// An attempt's result that is larger than MaxResult fails the job with it.
	ErrTooLarge = errors.New("jobs: too large")

	// ErrNotFound: there is no such job, or no longer.
	ErrNotFound = errors.New("jobs: not found")

	// ErrFinished: Cancel, where the job was over before.
	ErrFinished = errors.New("jobs: finished already")

	// ErrCanceled is what Wait returns for a job that was canceled, and the
	// cause of the context of an attempt whose job was.
	ErrCanceled = errors.New("jobs: canceled")

	// ErrLeaseLost is the cause of the context of an attempt that another one
	// has taken over, or may have: its result will not be kept.
	ErrLeaseLost = errors.New("jobs: lease lost")

	// ErrStopping is the cause of the context of an attempt whose Worker has
	// to stop and has no more time. The job is handed back, and the attempt does
	// not count.
	ErrStopping = errors.New("jobs: worker stopping")

	// ErrTimeout is the cause of the context of an attempt that has outlived
	// QueueOptions.AttemptTimeout.
	ErrTimeout = errors.New("jobs: attempt timed out")

	// ErrExpired is why a job failed whose SubmitOptions.Deadline passed before
	// it was started.
	ErrExpired = errors.New("jobs: deadline passed before the start")

	// ErrUnavailable: the server cannot be reached, or does not answer in time.
	// The operation may or may not have happened; Submit with a Key can safely
	// be repeated.
	ErrUnavailable = errors.New("jobs: server unavailable")

	// ErrClosed: the Store is closed.
	ErrClosed = errors.New("jobs: closed")
)

// A FullError is a refusal by Submit. Nothing was kept of the job.
type FullError struct {
	Queue  string
	Reason FullReason
	// RetryAfter is when it may be worth to try again, above zero: an estimate
	// out of how fast the queue drains, between one second and a minute.
	RetryAfter time.Duration
}

// A FullReason says which limit a Submit met.
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
	ID      string
	State   State // Failed or Dead
	Attempt int   // the last one
	Message string
}

// Error says which job has failed, how, and after how many attempts.
func (e *JobError) Error() string {
	return fmt.Sprintf("jobs: job %s is %s after %d attempts: %s", e.ID, e.State, e.Attempt, e.Message)
}

// Permanent returns err as one that no retry will mend: a handler that returns
// it fails its job at once. It unwraps to err. Permanent(nil) is nil.
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

// RetryIn returns err as one after which the next attempt is to wait for d, in
// place of QueueOptions.Backoff. It unwraps to err. RetryIn(nil, d) is nil.
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
