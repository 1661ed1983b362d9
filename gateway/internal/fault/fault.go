// Package fault has the errors of package forward, by which package upstream judges
// servers.
package fault

import "errors"

// An UnreachableError is a call whose origin could not be reached at all: refused, no route, no name, no time to connect.
type UnreachableError struct {
	Err error
	// Ours: the fault is not the origin's. There are no more files, ports or memory
	// here.
	Ours bool
}

func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A MismatchError is an origin that speaks another protocol than the request's,
// such as HTTP without TLS where TLS was expected. Its texts are ours, and hold
// nothing of what the origin sent.
type MismatchError struct {
	Kind    string // of RFC 9209, section 2.3
	Details string // what was spoken to what, in ASCII without quotes
	Advice  string // for the log
}

func (e *MismatchError) Error() string { return e.Details + "; " + e.Advice }

// ProxyStatus is the error with its details, as Proxy-Status has them.
func (e *MismatchError) ProxyStatus() string { return e.Kind + "; details=\"" + e.Details + "\"" }

// An UpstreamError is a failure that is the origin's own doing beyond doubt: it
// broke the connection, reset the stream, or answered what is no answer, while
// the client and we were fine. What is in none of these two types counts against
// no server (H16, H24).
type UpstreamError struct{ Err error }

func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Upstreams reports whether err says that the origin has failed.
func Upstreams(err error) bool {
	if err == nil {
		return false // before what is on the heap
	}
	var own *UpstreamError
	var unreachable *UnreachableError
	return errors.As(err, &own) || errors.As(err, &unreachable) && !unreachable.Ours
}
