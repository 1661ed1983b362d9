package jobsctl

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir/jobs"
)

// A Failure is the response of an admin listener to a request that failed.
type Failure struct {
	Error  string `json:"error"`
	Reason Reason `json:"reason,omitempty"`
}

// A Reason is the kind of failure, for programs.
type Reason string

// The reasons.
const (
	NoJobs      Reason = "no_jobs" // the proxy keeps none
	BadRequest  Reason = "bad_request"
	NotFound    Reason = "not_found"
	Conflict    Reason = "conflict"
	Finished    Reason = "finished"
	Unavailable Reason = "unavailable" // the servers that store the jobs do not respond
)

// reasons are the errors of package jobs, first match first, and their status.
var reasons = []struct {
	is     error
	reason Reason
	status int
}{
	{jobs.ErrNotFound, NotFound, http.StatusNotFound},
	{jobs.ErrFinished, Finished, http.StatusConflict},
	{jobs.ErrConflict, Conflict, http.StatusConflict},
	{jobs.ErrUnavailable, Unavailable, http.StatusServiceUnavailable},
	{jobs.ErrClosed, Unavailable, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, Unavailable, http.StatusGatewayTimeout},
}

// Fail returns the status and the Failure for an error of package jobs.
func Fail(err error) (int, Failure) {
	for _, r := range reasons {
		if errors.Is(err, r.is) {
			return r.status, Failure{err.Error(), r.reason}
		}
	}
	return http.StatusInternalServerError, Failure{Error: err.Error()}
}

// sentinel returns the error of package jobs for a reason, or nil if there is none.
func (r Reason) sentinel() error {
	for _, known := range reasons {
		if known.reason == r {
			return known.is
		}
	}
	return nil
}
