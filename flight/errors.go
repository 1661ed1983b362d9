package flight

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/weir-go/weir/internal/inflight"
)

// Errors that a call returns in addition to those of its function.
var (
	// ErrAbandoned is the cause (context.Cause) with which a function is
	// canceled when the last caller has left. No waiting caller receives it.
	ErrAbandoned = inflight.ErrAbandoned

	// ErrGoexit is returned to all callers when the function calls
	// runtime.Goexit.
	ErrGoexit = inflight.ErrGoexit

	// ErrRecursive is returned to a function that calls Do for its own key with
	// its context, or with one derived from it.
	ErrRecursive = inflight.ErrRecursive

	// ErrKey is returned if the key is not equal to itself, such as a
	// floating-point NaN: it could never be found again.
	ErrKey = inflight.ErrKey
)

// A PanicError is returned to all callers when the function panics.
//
// It does not match the errors that Value matches: a function that panics with
// sql.ErrNoRows has failed, and has not found that there are no rows.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the panic, as formatted by runtime/debug.Stack
}

// Error returns a text without the stack, because the texts of errors reach clients. It
// has the first line of Value's text: some packages panic with a value that includes the
// stack of another goroutine.
func (e *PanicError) Error() string {
	text, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return "weir: the load panicked: " + text
}

// fault returns the error for a function that did not return. recovered is the result
// of recover in a deferred function, which must also call fault, so that the stack of
// the panic is still there.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}
