// Package trial is what package jobs does for package jobstest and does not export: jobs
// that are kept in memory, and attempts without a server. Package jobs implements it.
package trial

import (
	"context"
	"time"
)

// A Spec describes a job. The fields of type any have types of package jobs, which this
// package cannot import, or the handler's types.
type Spec struct {
	Queue      string
	Options    any // jobs.QueueOptions
	Middleware any // []jobs.Middleware
	In, Out    any // jobs.Codec of the handler's types
	Input      any
	Submit     any // jobs.SubmitOptions
}

// A Job is a job in memory. It is not safe for concurrent use.
type Job interface {
	// Status returns the job's jobs.Status.
	Status() any

	// Attempt runs the handler once, as soon as it is due; the wait is skipped.
	Attempt(ctx context.Context) End
}

// An End is how an attempt ended.
type End struct {
	Kind     any // jobs.EventKind
	Err      error
	RetryIn  time.Duration
	Result   any   // nil, unless the job is done
	Progress []any // jobs.Progress
}

// New returns a job of a jobs.Handler, or the error that Submit would return for it.
// Package jobs sets it.
var New func(handler any, s Spec) (Job, error)
