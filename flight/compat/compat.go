// Package compat has the API of golang.org/x/sync/singleflight on package
// flight. A program that uses singleflight compiles with the import
//
//	singleflight "github.com/weir-go/weir/flight/compat"
//
// and nothing else changed. Three things behave differently:
//
//   - A panic does not end the process while a caller of DoChan waits: the channel
//     receives it as a [*flight.PanicError], and runtime.Goexit as
//     [flight.ErrGoexit]. Do panics and exits in each caller, as singleflight's
//     does; the value of the panic is a *flight.PanicError.
//   - The function runs on its own goroutine, also for the first caller of Do.
//   - A caller that arrives after the function has returned starts a new run. It
//     never gets a result that is older than its call.
//
// Callers have no context here, so callers cannot stop waiting: [flight.Group]
// has that, and a typed result.
package compat

import (
	"context"
	"runtime"

	"github.com/weir-go/weir/flight"
)

// A Group runs one call per key at a time. The zero Group is ready to use. It is
// safe for concurrent use, must not be copied after first use, and needs no Close.
type Group struct {
	calls flight.Group[string, outcome]
}

// An outcome is what a function returned. Its error stays apart from those of
// package flight, since the function may use another Group.
type outcome struct {
	val any
	err error
}

// A Result is what the channel of DoChan receives.
type Result struct {
	Val    any
	Err    error
	Shared bool // whether several callers got Val
}

// Do runs fn for key, or waits for the run that is in flight, and returns what fn
// returned. shared reports whether several callers got it. If fn panicked or
// called runtime.Goexit, Do does so in each caller. An fn that calls Do for its
// own key waits forever.
func (g *Group) Do(key string, fn func() (any, error)) (v any, err error, shared bool) {
	r := result(g.calls.DoResult(context.Background(), key, adapt(fn)))
	if r.fault == flight.ErrGoexit {
		runtime.Goexit()
	}
	if r.fault != nil {
		panic(r.fault)
	}
	return r.Val, r.Err, r.Shared
}

// DoChan is Do for callers that wait for several things: the channel receives the
// one Result and is not closed. The call is joined before DoChan returns. A panic
// of fn is the Result's Err.
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
// flight. Callers that wait for that one still get its result.
func (g *Group) Forget(key string) { g.calls.Forget(key) }

func adapt(fn func() (any, error)) func(context.Context) (outcome, error) {
	return func(context.Context) (outcome, error) {
		v, err := fn()
		return outcome{v, err}, nil
	}
}

// An ended is a Result, or the fault that took the place of one.
type ended struct {
	Result
	fault error
}

func result(r flight.Result[outcome]) ended {
	return ended{Result{r.Value.val, r.Value.err, r.Joiners > 1}, r.Err}
}
