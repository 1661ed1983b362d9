// Package compat provides the API of golang.org/x/sync/singleflight on top of package
// flight. A program that uses singleflight compiles with the import
//
//	singleflight "github.com/weir-go/weir/flight/compat"
//
// and no other change. Three things behave differently:
//
//   - A panic does not end the process while a caller of DoChan waits: the channel
//     receives it as a [*flight.PanicError], and runtime.Goexit as
//     [flight.ErrGoexit]. Do panics and exits in each caller, like singleflight;
//     the value of the panic is an error whose text has the stack. It matches the
//     value of the first panic and *flight.PanicError.
//   - The function always runs on its own goroutine, even for the first caller of Do.
//   - A caller that arrives after the function has returned starts a new run. It
//     never gets a result that is older than its call.
//
// This API has no context, so a caller cannot stop waiting. [flight.Group] has one,
// and typed results.
package compat

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/weir-go/weir/flight"
)

// A Group runs one function per key at a time. The zero Group is ready to use. It is
// safe for concurrent use, must not be copied after first use, and needs no Close.
type Group struct {
	calls flight.Group[string, outcome]
}

// An outcome holds the results of a function. Its error is kept separate from errors
// of package flight, because the function may itself use another Group and return one.
type outcome struct {
	val any
	err error
}

// A Result is received from the channel of DoChan.
type Result struct {
	Val    any   // value that the function returned
	Err    error // error that the function returned
	Shared bool  // whether several callers got Val
}

// Do runs fn for key, or waits for the run that is in flight, and returns the results
// of fn. shared reports whether several callers got them. If fn panics or calls
// runtime.Goexit, Do does the same in each caller. If fn calls Do for its own key, it
// waits forever.
func (g *Group) Do(key string, fn func() (any, error)) (v any, err error, shared bool) {
	r := result(g.calls.DoResult(context.Background(), key, adapt(fn)))
	if r.fault == flight.ErrGoexit {
		runtime.Goexit()
	}
	if r.fault != nil {
		panic(repanicked(r.fault))
	}
	return r.Val, r.Err, r.Shared
}

// repanicked returns the value with which Do panics for fault.
func repanicked(fault error) error {
	var p *flight.PanicError
	if !errors.As(fault, &p) {
		return fault
	}
	return &panicError{p}
}

// A panicError is a panic that goes on, for the runtime to print. It is no result of a
// function, so it may match its value, as in singleflight.
type panicError struct{ p *flight.PanicError }

func (e *panicError) Error() string {
	return fmt.Sprintf("weir: the load panicked: %v\n\n%s", e.p.Value, e.p.Stack)
}

func (e *panicError) Unwrap() []error {
	if err, ok := e.p.Value.(error); ok {
		return []error{e.p, err}
	}
	return []error{e.p}
}

// DoChan is Do for callers that wait for several events. The channel receives exactly
// one Result and is not closed. The caller has joined the run when DoChan returns. If
// fn panics, the Result's Err is the panic.
func (g *Group) DoChan(key string, fn func() (any, error)) <-chan Result {
	calls := g.calls.DoChan(context.Background(), key, adapt(fn))
	ch := make(chan Result, 1)
	go func() { // ends with the call
		r := result(<-calls)
		if r.fault != nil {
			r.Err = r.fault
		}
		ch <- r.Result
	}()
	return ch
}

// Forget makes the next caller of key start a new run, even while one is in
// flight. Callers that already wait still get the result of the old run.
func (g *Group) Forget(key string) { g.calls.Forget(key) }

func adapt(fn func() (any, error)) func(context.Context) (outcome, error) {
	return func(context.Context) (outcome, error) {
		v, err := fn()
		return outcome{v, err}, nil
	}
}

// An ended is a Result, or the fault because of which there is none.
type ended struct {
	Result
	fault error
}

func result(r flight.Result[outcome]) ended {
	return ended{Result{r.Value.val, r.Value.err, r.Joiners > 1}, r.Err}
}
