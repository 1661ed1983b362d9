package periodic

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/weir-go/weir/flight"
)

var (
	// ErrClosed is the cause of the context of operations that Close interrupts.
	ErrClosed = errors.New("periodic: closed")

	// ErrAhead is reported if the last tick of a schedule is more than a minute in the
	// future: the server's clock was set back, or was wrong when the tick was submitted.
	// The schedule has no further job until its clock is past that tick.
	ErrAhead = errors.New("periodic: the last tick is in the future")

	// errContended ends a look that has lost too many races; another follows.
	errContended = errors.New("periodic: other instances keep changing the schedule")
)

// A panicError is a panic of a function that the user gave. Its text has no stack; logs
// find that in the PanicError.
type panicError struct {
	what string
	*flight.PanicError
}

func (e *panicError) Error() string {
	text, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return "panic in " + e.what + ": " + text
}

func (e *panicError) Unwrap() error { return e.PanicError }

// guarded calls f on a separate goroutine and waits for it, so that neither a panic nor
// runtime.Goexit ends the caller. Both are errors.
func guarded(what string, f func() error) error {
	err := fmt.Errorf("%s called runtime.Goexit", what)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{what, &flight.PanicError{Value: v, Stack: debug.Stack()}}
			}
		}()
		err = f()
	}()
	<-done
	return err
}
