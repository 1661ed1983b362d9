package jobshttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp/accept"
)

var (
	// errUnread: the body of a request ended too early.
	errUnread = errors.New("jobshttp: the body of the request could not be read")

	// errBroken: the handler aborted its response.
	errBroken = errors.New("the answer broke off")

	// errStopped: the worker had to stop in the middle of a request that must not be
	// sent twice.
	errStopped = errors.New("the worker was stopped in the middle of the request, which may have taken effect and is not sent twice")
)

// An OptionError is an invalid option.
type OptionError = option.Error

// A statusError is a response that is not a result: the request is retried.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the response was %d %s", e.status, http.StatusText(e.status))
}

// An oversizeError is a response that is too large to keep.
type oversizeError struct{ limit int }

func (e *oversizeError) Error() string {
	return fmt.Sprintf("the response body is larger than %d bytes, the maximum that is kept", e.limit)
}

// A verdict is how an error is reported over HTTP.
type verdict struct {
	status     int
	retryAfter time.Duration // 0 for none
	detail     string
}

// errShared: several clients may share the job, so none can cancel it.
var errShared = errors.New("jobshttp: a shared job of anonymous clients")

// verdictOn is the one table that maps errors to HTTP. The first matching row
// applies.
func verdictOn(err error) verdict {
	var full *jobs.FullError
	var failed *jobs.JobError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &full):
		return verdict{http.StatusServiceUnavailable, full.RetryAfter, "No more jobs can be accepted at the moment."}
	case errors.Is(err, jobs.ErrConflict):
		return verdict{http.StatusUnprocessableEntity, 0, "This Idempotency-Key was used for another request."}
	case errors.Is(err, once.ErrMalformedKey):
		return verdict{http.StatusBadRequest, 0, "Idempotency-Key must be one string of 1 to 255 printable ASCII characters."}
	case errors.Is(err, errUnread):
		return verdict{http.StatusBadRequest, 0, "The body of the request ended too early."}
	case errors.As(err, &body):
		return verdict{http.StatusRequestEntityTooLarge, 0, fmt.Sprintf("The body of a request that becomes a job can have at most %d bytes.", body.Limit)}
	case errors.Is(err, jobs.ErrTooLarge):
		return verdict{http.StatusRequestEntityTooLarge, 0, "The request is too large to become a job."}
	case errors.As(err, &failed):
		return verdict{http.StatusBadGateway, 0, fmt.Sprintf("The job is %s after %d attempts: %s", failed.State, failed.Attempt, failed.Message)}
	case errors.Is(err, jobs.ErrCanceled):
		return verdict{http.StatusGone, 0, "The job was canceled."}
	case errors.Is(err, errShared):
		return verdict{http.StatusForbidden, 0, "Several clients may share the job, so none of them can cancel it."}
	case errors.Is(err, jobs.ErrFinished):
		return verdict{http.StatusConflict, 0, "The job is over."}
	case errors.Is(err, jobs.ErrNotFound):
		return verdict{http.StatusNotFound, 0, "There is no such job."}
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, jobs.ErrClosed):
		return verdict{http.StatusServiceUnavailable, 2 * time.Second, "The job store cannot be reached at the moment."}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{http.StatusGatewayTimeout, 0, "The job store did not respond in time."}
	}
	return verdict{http.StatusInternalServerError, 0, "An error occurred while the job was processed."}
}

// refuse responds to r with the verdict on err, as a problem document (RFC 9457).
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if context.Cause(r.Context()) == nil || !errors.Is(err, context.Canceled) { // otherwise the client is gone
		v := verdictOn(err)
		writeProblem(w, r, v)
	}
}

// writeProblem writes a problem document, or a page for a client that prefers HTML, as after a 202.
func writeProblem(w http.ResponseWriter, r *http.Request, v verdict) {
	h := w.Header()
	if v.retryAfter > 0 {
		h.Set("Retry-After", seconds(v.retryAfter))
	}
	if !slices.Contains(h["Vary"], "Accept") {
		h["Vary"] = append(slices.Clip(h["Vary"]), "Accept")
	}
	if accept.Choose(r.Header["Accept"], "application/problem+json", "application/json", "text/html") == 2 {
		writeFailure(w, r, v)
		return
	}
	writeJSON(w, r, v.status, "application/problem+json", map[string]any{
		"type": "about:blank", "title": http.StatusText(v.status), "status": v.status, "detail": v.detail,
	})
}

// failure is the response to a browser that gets no result: the status in words, what is wrong, and a
// link to the job if there is one. Like the page of a 202, it has no script.
const failure = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%[1]s</title>
<h1>%[1]s</h1>
<p>%[2]s</p>
%[3]s</html>
`

// writeFailure writes the page about v.
func writeFailure(w http.ResponseWriter, r *http.Request, v verdict) {
	h, link := w.Header(), ""
	if at := h.Get("Location"); at != "" {
		link = "<p><a href=\"" + html.EscapeString(at) + "\">Status of the job</a></p>\n"
	}
	if h.Get("Retry-After") != "" {
		v.detail += " Try again in " + h.Get("Retry-After") + " s."
	}
	h.Set("Content-Security-Policy", "default-src 'none'")
	title := cmp.Or(http.StatusText(v.status), "Error")
	write(w, r, v.status, "text/html; charset=utf-8", fmt.Appendf(nil, failure, html.EscapeString(title), html.EscapeString(v.detail), link))
}

// writeJSON writes a response for this client only, which caches must not store.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, body = http.StatusInternalServerError, nil // cannot happen: every v can be encoded
	}
	write(w, r, status, contentType, append(plain.JSON(body), '\n'))
}

// write is writeJSON for any body.
func write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", private)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the server notices if the client is gone
	}
}

// private is the Cache-Control of all responses about jobs.
const private = "no-store, private"

// seconds formats d as a delay in seconds (RFC 9110, section 10.2.3), rounded up.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
