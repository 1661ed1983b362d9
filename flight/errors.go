package flight

import (
	"fmt"
	"runtime/debug"

	"github.com/weir-go/weir/internal/inflight"
)

// Errors that a call returns beside those of its function.
var (
	// ErrAbandoned is the cause (context.Cause) with which a function is
	// canceled when the last caller has left. Nobody who still waits receives
	// it.
	ErrAbandoned = inflight.ErrAbandoned

	// ErrGoexit is what callers get when the function called runtime.Goexit.
	ErrGoexit = inflight.ErrGoexit

	// ErrRecursive is what a function gets that asks, through the context it
	// was given, for the key that it runs for.
	ErrRecursive = inflight.ErrRecursive

	// ErrKey is what a caller gets whose key is not equal to itself, such as
	// a floating-point NaN: it could never be found again.
	ErrKey = inflight.ErrKey
)

// A PanicError is what callers get when the function panicked.
type PanicError struct {
	Value any    // what the function passed to panic
	Stack []byte // where it did, as runtime/debug.Stack prints it
}

// Error includes the stack, since the panic would have printed it.
func (e *PanicError) Error() string {
	return fmt.Sprintf("weir: the load panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// fault turns what a deferred function recovered from a function that did not
// return into an error. It must be called while the stack still stands.
func fault(recovered any) error {
	if recovered == nil {
		return ErrGoexit
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}
