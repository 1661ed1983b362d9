package weirhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// An OptionError is a fault in an options struct.
type OptionError = option.Error

// errNotStored fails a request with only-if-cached for which nothing is stored (RFC
// 9111 section 5.2.1.7).
var errNotStored = errors.New("weirhttp: nothing is stored for the request")

// An errStatus is a status code of the origin that counts as an error in the sense of
// RFC 5861.
type errStatus int

func (e errStatus) Error() string { return "the origin responded with status " + strconv.Itoa(int(e)) }

// failed returns the errStatus of a response, with the time that its Retry-After states.
func failed(status int, stated time.Duration) error {
	if stated > 0 {
		return weir.RetryAfter(errStatus(status), stated)
	}
	return errStatus(status)
}

// statedIn returns the time that the Retry-After of a response states: 0 for none, or with a
// status for which RFC 9110, section 10.2.3, and RFC 6585, section 4, give it no such meaning.
func statedIn(status int, h http.Header) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	d, _ := RetryAfter(h, time.Now()) // if that is not ok, it is 0 or long, and its user has a bound
	return d
}

// A StatusError is the error of [ResponseError], with the Status of the response.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return "weirhttp: the response has status " + strconv.Itoa(e.Status)
}

// Is matches weir.ErrNotFound with 404 and 410.
func (e *StatusError) Is(target error) bool {
	return target == weir.ErrNotFound && (e.Status == http.StatusNotFound || e.Status == http.StatusGone)
}

// ResponseError returns the error of a response for the load of a Guard: nil for a status
// below 400, and otherwise a *StatusError. If the response has status 429 or 503 and a
// Retry-After, the error is a weir.RetryAfter, so that the Guard does not call the service
// until then.
func ResponseError(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	err := error(&StatusError{resp.StatusCode})
	if d := statedIn(resp.StatusCode, resp.Header); d > 0 {
		err = weir.RetryAfter(err, d)
	}
	return err
}

// isError reports whether a response with this status counts as an error in the sense
// of RFC 5861 section 4.
func isError(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}

// An answer is an error as an HTTP response.
type answer struct {
	status     int
	retryAfter time.Duration // 0 for none
	proxy      string        // the error type of Proxy-Status, RFC 9209 section 2.3
	text       string
}

// An ErrorResponse is a response that weir generates itself, to a request that it
// rejects or that failed. See Options.ErrorHandler.
type ErrorResponse struct {
	// Status is the status code: 4xx or 5xx.
	Status int
	// RetryAfter is the value of Retry-After. 0 leaves the field out.
	RetryAfter time.Duration
	// ProxyStatus is the value of Proxy-Status (RFC 9209). Empty leaves the field
	// out.
	ProxyStatus string
	// Type is the type of the problem (RFC 9457): if it is set, Write responds with
	// application/problem+json instead of plain text. See IdempotencyPolicy.
	Type string
	// Text says in a few words what is wrong. Nothing in it comes from the request.
	Text string
	// Err is the reason, for errors.Is and for logs. It is not meant for clients.
	Err error
}

// Write responds to r with e: its header fields and a line of plain text.
func (e ErrorResponse) Write(w http.ResponseWriter, r *http.Request) {
	e.head(w, r)
	text := e.Text
	if e.RetryAfter > 0 {
		text += "; try again in " + retryAfter(e.RetryAfter) + " s"
	}
	kind := "text/plain; charset=utf-8"
	if e.Type != "" {
		kind, text = "application/problem+json", e.problem(text)
	} else {
		text = fmt.Sprintf("%d %s: %s\n", e.Status, http.StatusText(e.Status), text)
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text) // if the client has gone, the server notices
	}
}

// problem returns e as the JSON of RFC 9457.
func (e ErrorResponse) problem(text string) string {
	b, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{e.Type, http.StatusText(e.Status), e.Status, text})
	if err != nil {
		panic(err) // strings and a number
	}
	return string(b) + "\n"
}

// WriteWith responds to r with e through handler, or with Write if handler is nil.
func (e ErrorResponse) WriteWith(handler ErrorHandler, w http.ResponseWriter, r *http.Request) {
	if handler == nil {
		e.Write(w, r)
		return
	}
	e.head(w, r)
	handler(w, r, e)
}

// head sets the fields of e and removes those of any other response.
func (e ErrorResponse) head(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, k := range []string{"Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Etag", "Last-Modified", "Trailer"} {
		delete(h, k)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", retryAfter(e.RetryAfter))
	}
	if e.ProxyStatus != "" {
		h.Set("Proxy-Status", e.ProxyStatus)
	}
	if e.Status == http.StatusRequestTimeout && r.ProtoMajor == 1 {
		h.Set("Connection", "close") // RFC 9110 section 15.5.9
	}
}

// An ErrorHandler responds to r with e. The header fields of e, including
// Cache-Control: no-store, are already set in w. The handler adds Content-Type, calls
// WriteHeader and writes a body. Without an ErrorHandler, [ErrorResponse.Write]
// writes the response. The server drops the body of a response to HEAD.
type ErrorHandler func(w http.ResponseWriter, r *http.Request, e ErrorResponse)

// answerTo is the only table that maps errors to HTTP (decision 0004). The first
// matching row applies. client means that the limit is one of this client's limits;
// gateway means that a failure is the fault of a server behind us.
func answerTo(err error, client, gateway bool) answer {
	var refused *limit.Error
	var body *bodyError
	var forward *ForwardError
	var stated *weir.RetryAfterError
	if a, _, ok := idempotencyAnswer(err); ok {
		return a
	}
	switch {
	case isPanic(err):
		return answer{http.StatusInternalServerError, 0, "proxy_internal_error", "the service failed"}
	case errors.As(err, &refused) && refused.Reason == limit.TooMany:
		return answer{http.StatusRequestEntityTooLarge, 0, "http_request_denied", "the request costs more than the limit allows"}
	case errors.As(err, &refused) && (client || ofClient(err)) && errors.Is(err, fleet.ErrUnavailable):
		return answer{http.StatusServiceUnavailable, refused.RetryAfter, "proxy_internal_error", "the limit is unreachable"}
	case errors.As(err, &refused) && ofClient(err):
		return answer{http.StatusTooManyRequests, refused.RetryAfter, "http_request_denied", "this client has used up its budget"}
	case errors.As(err, &refused) && client:
		return answer{http.StatusTooManyRequests, refused.RetryAfter, "http_request_denied", "too many requests from this client"}
	case errors.As(err, &stated) && !errors.Is(err, weir.ErrNotFound):
		return answer{http.StatusServiceUnavailable, max(stated.After(), time.Second), "destination_unavailable", "the service is not available at the moment"}
	case errors.As(err, &refused):
		return answer{http.StatusServiceUnavailable, refused.RetryAfter, "connection_limit_reached", "the service is at its limit"}
	case errors.Is(err, weir.ErrStuck), errors.Is(err, weir.ErrClosed):
		return answer{http.StatusServiceUnavailable, time.Second, "proxy_internal_error", "the service is not available at the moment"}
	case errors.Is(err, weir.ErrNotFound):
		return answer{http.StatusNotFound, 0, "", "not found"}
	case errors.Is(err, errNotStored):
		return answer{http.StatusGatewayTimeout, 0, "", "nothing is stored for this request, and it accepts only stored responses"}
	case errors.Is(err, ErrOutOfTime):
		return answer{http.StatusGatewayTimeout, 0, "http_response_timeout", "the service did not respond in the time that the request states"}
	case errors.Is(err, ErrSlowClient):
		return answer{http.StatusRequestTimeout, 0, "http_request_error", "the body of the request arrived too slowly"}
	case (errors.As(err, &body) || ofRequest(err)) && isTimeout(err):
		return answer{http.StatusRequestTimeout, 0, "http_request_error", "the body of the request did not arrive in time"}
	case errors.As(err, new(*http.MaxBytesError)):
		return answer{http.StatusRequestEntityTooLarge, 0, "http_request_error", "the body of the request is too large"}
	case errors.As(err, &body):
		return answer{http.StatusBadRequest, 0, "http_request_error", "the body of the request cannot be read"}
	case ofRequest(err):
		return answer{http.StatusBadRequest, 0, "http_request_error", "the request cannot be forwarded"}
	}
	if status := givenUp(err); status != 0 {
		return answer{status, 0, "destination_unavailable", "the service is not available at the moment"}
	}
	a := originFailed(err, gateway)
	if errors.As(err, &forward) && forward.ProxyStatus != "" {
		a.proxy = forward.ProxyStatus // the next handler knows more
	}
	return a
}

// A refusal is what has rejected a request.
type refusal uint8

// The refusals, in the order of RefusedStats.
const (
	refusedLimit refusal = iota
	refusedBudget
	refusedPaused
	refusedUnreachable
	refusedClient
	refusedClientBudget
	refusedTooLarge
	refusals
)

var refusalNames = [refusals]string{"limit", "budget", "paused", "unreachable", "client", "client_budget", "too_large"}

// refusalOf returns what err, a refusal, comes from. Its rows have the order of answerTo, so that
// each refusal has one status.
func refusalOf(err error, client bool) refusal {
	var refused *limit.Error
	var over *overBudget
	switch budget := errors.As(err, &over); {
	case errors.As(err, &refused) && refused.Reason == limit.TooMany:
		return refusedTooLarge
	case errors.Is(err, fleet.ErrUnavailable):
		return refusedUnreachable
	case budget && over.client:
		return refusedClientBudget
	case client:
		return refusedClient
	case errors.As(err, new(*pausedError)):
		return refusedPaused
	case budget:
		return refusedBudget
	}
	return refusedLimit
}

// originFailed is the end of the table: the failures of the service.
func originFailed(err error, gateway bool) answer {
	switch {
	case unavailable(err):
		return answer{http.StatusServiceUnavailable, time.Second, "destination_unavailable", "the service is not available at the moment"}
	case unreachable(err) && isTimeout(err):
		return answer{http.StatusGatewayTimeout, 0, "connection_timeout", "the service could not be reached in time"}
	case isTimeout(err):
		return answer{http.StatusGatewayTimeout, 0, "http_response_timeout", "the service did not respond in time"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{failure(gateway), 0, "connection_refused", "the service cannot be reached"}
	case unreachable(err):
		return answer{failure(gateway), 0, "destination_unavailable", "the service cannot be reached"}
	case errors.Is(err, errBroken), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return answer{failure(gateway), 0, "connection_terminated", "the service broke off the connection"}
	}
	return answer{failure(gateway), 0, "http_protocol_error", "the service failed"}
}

func failure(gateway bool) int {
	if gateway {
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isPanic(err error) bool {
	return errors.As(err, new(*coalesce.PanicError)) || errors.Is(err, coalesce.ErrGoexit)
}

func unreachable(err error) bool {
	var forward *ForwardError
	return errors.As(err, &forward) && forward.Unreachable
}

func unavailable(err error) bool {
	var forward *ForwardError
	return errors.As(err, &forward) && forward.Unavailable
}

// response returns a as a response of the gateway called name, or of no gateway if
// name is empty.
func (a answer) response(err error, name string) ErrorResponse {
	e := ErrorResponse{Status: a.status, RetryAfter: a.retryAfter, Text: a.text, Err: err}
	if _, problem, ok := idempotencyAnswer(err); ok {
		e.Type = problemPrefix + problem
	}
	if a.proxy != "" && name != "" {
		e.ProxyStatus = name + "; error=" + a.proxy
	}
	return e
}

// refuse responds to r with a, the response for err.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, a answer, err error) {
	name := ""
	if h.o.Gateway {
		name = h.name
	}
	a.response(err, name).WriteWith(h.o.ErrorHandler, w, r)
}

// retryAfter formats d as in RFC 9110 section 10.2.3: whole seconds, rounded up.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// answer responds to c with an error.
func (c *call) answer(err error) {
	a := answerTo(err, false, c.h.o.Gateway)
	o := OutcomeFailed
	if errors.Is(err, limit.ErrLimited) {
		o = OutcomeRefused
	}
	c.receipt.Err = err
	if t, ok := c.w.(interface{ takeError(error) }); ok { // a Transport returns it
		c.became(o)
		c.receipt.Outcome = o
		t.takeError(err)
		return
	}
	if errors.Is(err, errAborted) {
		c.report(o)
		Break(c.w, c.r)
	}
	c.setStatus(o)
	c.report(o)
	c.h.refuse(c.w, c.r, a, err)
}

// Error responds to r with the status that err stands for, from the table that maps
// weir's errors to HTTP (decision 0004). Handlers that call a Guard can pass its
// error:
//
//	400s  404 for weir.ErrNotFound, 408 for ErrSlowClient, 413 for a *http.MaxBytesError
//	      and for a *limit.Error with limit.TooMany, which a retry does not help
//	503   for a *limit.Error, a weir.RetryAfter, weir.ErrStuck and weir.ErrClosed, with
//	      Retry-After
//	504   for a call that took too long
//	500   for everything else
//
// A limit on this client alone is 429: see [ClientError]. Nothing is written if the
// client has gone. The client does not see the text of err. [ErrorResponseTo] is the
// same table, for a response in another form.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != context.Canceled { //nolint:errorlint // contexts return it as it is
		ErrorResponseTo(err).Write(w, r)
	}
}

// ErrorResponseTo returns the response that [Error] writes for err.
func ErrorResponseTo(err error) ErrorResponse { return answerTo(err, false, false).response(err, "") }

// ClientError is Error for errors of a limit on this client: a *limit.Error is 429,
// with Retry-After. If such a limit is unreachable (a *quota.OutageError), it is 503.
func ClientError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != context.Canceled { //nolint:errorlint // contexts return it as it is
		answerTo(err, true, false).response(err, "").Write(w, r)
	}
}
