// Package exchange is what a forwarder and the cache before it tell each other
// beside the answer: the ResponseWriter that weirhttp hands to the next handler
// is a Sink.
package exchange

import "net/http"

// A Sink is a ResponseWriter that can be told more than an answer. A handler
// that breaks off in the middle of a body panics with http.ErrAbortHandler, as
// everywhere in net/http.
type Sink interface {
	http.ResponseWriter

	// Fail says, instead of WriteHeader, that there is no answer, and why. The
	// handler returns after it. What becomes of the request is for the cache to
	// say: a stale answer, or an error.
	Fail(err error)

	// CloseDelimited says, before WriteHeader, that the end of the body will be
	// the end of the connection, so that nobody can tell a whole body from a
	// part of one. It is passed on, and not stored (H5).
	CloseDelimited()
}

// An UnreachableError is what Fail is given when the origin could not be
// reached at all: refused, no route, no name, no time to connect.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }
