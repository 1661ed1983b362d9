// Package inflight is the kernel of coalescing that flight.Group and
// weir.Guard share: a table of running loads and the callers that wait for
// them.
//
// A [Load] is one run of a function, for one key or for several. Each of its
// keys has a [Flight], which holds the answer for the callers that wait for
// that key. The kernel decides who may join, when a load is canceled and what
// is final; running the function and keeping its value is the owner's work.
//
// Everything here turns on one rule: a load becomes final, leaves the table
// and loses its right to store in one critical section, and only then is its
// context canceled. So the context is also the signal that callers wait for,
// no flight in the table is ever a lost one, and no other channel is needed.
package inflight

import "errors"

// These are handed out by the packages that stand on the kernel, under their
// own names.
var (
	// ErrAbandoned is the cause with which a load is canceled when its last
	// joiner has left.
	ErrAbandoned = errors.New("weir: abandoned by all its callers")

	// ErrGoexit is the result of a load that called runtime.Goexit.
	ErrGoexit = errors.New("weir: the load called runtime.Goexit")

	// ErrRecursive is the result of a call that would wait for the load that
	// made it.
	ErrRecursive = errors.New("weir: a load asked for its own key")

	// ErrKey is the result of a call whose key is not equal to itself (NaN).
	ErrKey = errors.New("weir: the key is not equal to itself")
)

// Never, as a grace, lets an abandoned load run to its end.
const Never = -1
