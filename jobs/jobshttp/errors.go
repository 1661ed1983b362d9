package jobshttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/plain"
)

var (
	// errMalformedKey: Idempotency-Key is no string, or is there twice.
	errMalformedKey = errors.New("jobshttp: malformed Idempotency-Key")

	// errUnread: the body of a request ended too early.
	errUnread = errors.New("jobshttp: the body of the request could not be read")

	// errBroken: the handler broke its answer off.
	errBroken = errors.New("the answer broke off")

	// errStopped: the worker had to stop in the middle of what must not happen
	// twice.
	errStopped = errors.New("the worker was stopped in the middle of the request, which may have had its effect, and is not sent twice")
)

// An OptionError is a fault in options.
type OptionError = option.Error

// A statusError is an answer that is no result: the call is made again.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the answer was %d %s", e.status, http.StatusText(e.status))
}

// An oversizeError is a response that is too large to keep.
type oversizeError struct{ limit int }

func (e *oversizeError) Error() string {
	return fmt.Sprintf("the answer's body is larger than %d bytes, the most that is kept of one", e.limit)
}

// A verdict is what an error is over HTTP.
type verdict struct {
	status     int
	retryAfter time.Duration // 0 for none
	detail     string
}

// errShared: the job is not this client's alone.
var errShared = errors.New("jobshttp: a job of anonymous clients")

// verdictOn is the one table that maps errors to HTTP. The first row that
// matches holds.
func verdictOn(err error) verdict {
	var full *jobs.FullError
	var failed *jobs.JobError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &full):
		return verdict{http.StatusServiceUnavailable, full.RetryAfter, "There are as many jobs as can be taken at the moment."}
	case errors.Is(err, jobs.ErrConflict):
		return verdict{http.StatusUnprocessableEntity, 0, "This Idempotency-Key was used for another request."}
	case errors.Is(err, errMalformedKey):
		return verdict{http.StatusBadRequest, 0, "Idempotency-Key must be one string of 1 to 255 printable ASCII characters."}
	case errors.Is(err, errUnread):
		return verdict{http.StatusBadRequest, 0, "The body of the request ended too early."}
	case errors.As(err, &body):
		return verdict{http.StatusRequestEntityTooLarge, 0, fmt.Sprintf("A request that becomes a job can have a body of %d bytes.", body.Limit)}
	case errors.Is(err, jobs.ErrTooLarge):
		return verdict{http.StatusRequestEntityTooLarge, 0, "The request is too large to become a job."}
	case errors.As(err, &failed):
		return verdict{http.StatusBadGateway, 0, fmt.Sprintf("The job is %s after %d attempts: %s", failed.State, failed.Attempt, failed.Message)}
	case errors.Is(err, jobs.ErrCanceled):
		return verdict{http.StatusGone, 0, "The job was canceled."}
	case errors.Is(err, errShared):
		return verdict{http.StatusForbidden, 0, "The job may be that of several clients, and none of them can cancel it."}
	case errors.Is(err, jobs.ErrFinished):
		return verdict{http.StatusConflict, 0, "The job is over."}
	case errors.Is(err, jobs.ErrNotFound):
		return verdict{http.StatusNotFound, 0, "There is no such job."}
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, jobs.ErrClosed):
		return verdict{http.StatusServiceUnavailable, 2 * time.Second, "The jobs cannot be reached at the moment."}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{http.StatusGatewayTimeout, 0, "The jobs did not answer in time."}
	}
	return verdict{http.StatusInternalServerError, 0, "The job could not be handled."}
}

// refuse answers r with what err is over HTTP, as a problem document (RFC 9457).
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if context.Cause(r.Context()) == nil || !errors.Is(err, context.Canceled) { // else nobody is there
		v := verdictOn(err)
		writeProblem(w, r, v)
	}
}

// writeProblem writes a problem document.
func writeProblem(w http.ResponseWriter, r *http.Request, v verdict) {
	if v.retryAfter > 0 {
		w.Header().Set("Retry-After", seconds(v.retryAfter))
	}
	writeJSON(w, r, v.status, "application/problem+json", map[string]any{
		"type": "about:blank", "title": http.StatusText(v.status), "status": v.status, "detail": v.detail,
	})
}

// writeJSON writes an answer that is for nobody else, and is not kept.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, body = http.StatusInternalServerError, nil // there is nothing in it that cannot be written
	}
	body = append(plain.JSON(body), '\n')
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", private)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone is the server's to notice
	}
}

// private is the Cache-Control of everything about jobs.
const private = "no-store, private"

// seconds renders d as RFC 9110 section 10.2.3 has it, rounded up.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
