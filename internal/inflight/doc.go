// Package inflight is the coalescing kernel that flight.Group and weir.Guard
// share: a table of running loads and the callers that wait for them.
//
// A [Load] is one run of a function, for one key or for several. Each of its keys
// has a [Flight], which holds the result for the callers that wait for that key.
// The kernel decides which callers may join, when a load is canceled and which
// results are final. Running the function and keeping its value is up to the
// owner.
//
// Everything here depends on one rule: a load becomes final, leaves the table and
// loses its right to store in one critical section, and only then is its context
// canceled. So the context is also the signal that callers wait for, the table
// never holds a flight that is already lost, and no other channel is needed.
package inflight

import "errors"

// The packages built on the kernel export these under their own names.
var (
	// ErrAbandoned is the cause of canceling a load after its last joiner has
	// left.
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
