package flight

import (
	"fmt"
	"runtime/debug"

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

// A PanicError is returned to all callers when the function panics. It matches neither
// the panic's value nor anything that this wraps: a panic with an error is not the
// function's result.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the panic, as formatted by runtime/debug.Stack
}

// Error returns the text of the panic without the stack: texts of errors reach clients and
// other processes.
func (e *PanicError) Error() string { return fmt.Sprintf("weir: the load panicked: %v", e.Value) }

// fault returns the error for a function that did not return. recovered is the result
// of recover in a deferred function, which must also call fault, so that the stack of
// the panic is still there.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}
