// Package fault has the errors of package forward, by which package upstream judges
// servers.
package fault

import (
	"errors"
	"strconv"
	"time"
)

// An UnreachableError means that the origin could not be reached: the connection was
// refused or timed out, or there was no route or no address for the name.
type UnreachableError struct {
	Err error
	// Ours: the fault is not the origin's. This process has no files, ports or memory left.
	Ours bool
}

func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A MismatchError means that the origin speaks a different protocol, such as HTTP without
// TLS where TLS was expected. Its texts are ours and contain nothing that the origin sent.
type MismatchError struct {
	Kind    string // of RFC 9209, section 2.3
	Details string // the two protocols, in ASCII without quotes
	Advice  string // for the log
}

func (e *MismatchError) Error() string { return e.Details + "; " + e.Advice }

// ProxyStatus returns the error with its details in the form of Proxy-Status.
func (e *MismatchError) ProxyStatus() string { return e.Kind + "; details=\"" + e.Details + "\"" }

// A NotRunError means that the origin has not run the request: it closes the connection, or
// refused the stream. The request cannot be sent again, because part of its body was sent
// and not kept. That is no fault of the origin.
type NotRunError struct{ Err error }

func (e *NotRunError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotRunError) Unwrap() error { return e.Err }

// ProxyStatus returns the error in the form of Proxy-Status.
func (e *NotRunError) ProxyStatus() string {
	return "connection_terminated; details=\"the server did not process the request, and part of its body was sent\""
}

// An UpstreamError is a failure that is certainly the origin's fault: it broke the
// connection, reset the stream, or sent an invalid response, while the client and this
// process worked. Errors of other types count against no server (H16, H24).
type UpstreamError struct{ Err error }

func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UpstreamError) Unwrap() error { return e.Err }

// An UnresolvedError means that no server is known yet, because the lookups of their names have
// failed. Nothing was sent.
type UnresolvedError struct{ Err error }

func (e *UnresolvedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnresolvedError) Unwrap() error { return e.Err }

// A DownError means that no server is in use: each is ejected, or fails its checks. Nothing was
// sent.
type DownError struct{}

func (*DownError) Error() string { return "no server of the upstream is in use" }

// A StatusError means that a response with this status was given up.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return "the server responded with status " + strconv.Itoa(e.Status)
}

// An ElsewhereError means that the request is to be sent to another upstream (H40): Err is why
// this one does not respond to it.
type ElsewhereError struct {
	Err    error
	Reason string // "down", or a status
	// Sends is how often the request was sent, and may have reached a server.
	Sends int
	Began time.Time // when the upstream received the request
	// Take reports whether one more of the requests that fail with this error may be sent. It
	// is safe for concurrent use.
	Take func() bool
}

func (e *ElsewhereError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ElsewhereError) Unwrap() error { return e.Err }

// Upstreams reports whether err means that the origin has failed.
func Upstreams(err error) bool {
	if err == nil {
		return false // checked first to avoid an allocation
	}
	var own *UpstreamError
	var unreachable *UnreachableError
	return errors.As(err, &own) || errors.As(err, &unreachable) && !unreachable.Ours
}
