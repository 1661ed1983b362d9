package flight

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/wait"
)

// Never is a [Group.Grace] with which a run always continues to its end, even after
// all callers have left.
const Never time.Duration = inflight.Never

// A Group runs one function per key at a time. The zero Group is ready to use. It
// is safe for concurrent use and must not be copied after first use. Its only
// goroutines are those of running functions, so there is nothing to close.
//
// Keys are compared with ==. Everything that affects the result (tenant, language,
// permissions) belongs in the key, because callers with equal keys get the same
// result.
type Group[K comparable, V any] struct {
	// Grace says what happens to a run when its last caller has left. Zero: it
	// is canceled at once. Positive: it is canceled after that time unless
	// another caller has joined it. Negative ([Never]): it continues to its end
	// and can be joined until then. Grace must not change after first use.
	Grace time.Duration

	table inflight.Table[K, V]
}

// A Result is the result of a call.
type Result[V any] struct {
	Value V     // value that the run returned
	Err   error // error that the run returned

	// Joined is true if the call joined a run that was already in flight.
	Joined bool

	// Joiners is the number of callers that ever waited for the run, including
	// the one that started it. It is 0 if the caller left before the end.
	Joiners int
}

// Do runs fn for key, or waits for the run that is in flight, and returns its
// result.
//
// fn runs on its own goroutine. Its context has the values of the ctx that started
// it, but neither the deadline nor the cancellation of that ctx. It ends with cause
// [ErrAbandoned] when the last caller has left (see [Group.Grace]).
//
// If fn calls Do for other keys, it must bound its wait: two runs, started by two
// callers, that wait for each other's keys would never end. A run that waits for
// itself, directly or through others that it started, gets [ErrRecursive].
//
// If ctx ends first, Do returns context.Cause(ctx) at once, unless the result is
// already available. If ctx has ended before the call, Do starts no run.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (V, error) {
	f, edge, _, err := g.join(ctx, key, fn)
	switch {
	case err != nil:
	case edge == nil:
		err = f.Wait(ctx, g.Grace) // not through wait, to keep the stack small: see inflight
	default:
		err = g.wait(ctx, f, edge)
	}
	if err != nil {
		var none V
		return none, err
	}
	return f.Value, f.Err
}

// DoResult is [Group.Do] with a [Result], which also says whether the run was shared.
func (g *Group[K, V]) DoResult(ctx context.Context, key K, fn func(context.Context) (V, error)) Result[V] {
	f, edge, joined, err := g.join(ctx, key, fn)
	if err != nil {
		return Result[V]{Err: err}
	}
	err = g.wait(ctx, f, edge)
	return result(f, joined, err)
}

// DoChan is [Group.DoResult] for callers that wait for several events. The channel
// receives exactly one result and is not closed. The caller has joined the run when
// DoChan returns, and leaves it when ctx ends.
func (g *Group[K, V]) DoChan(ctx context.Context, key K, fn func(context.Context) (V, error)) <-chan Result[V] {
	ch := make(chan Result[V], 1)
	f, edge, joined, err := g.join(ctx, key, fn)
	if err != nil {
		ch <- Result[V]{Err: err}
		return ch
	}
	go func() {
		err := g.wait(ctx, f, edge)
		ch <- result(f, joined, err)
	}()
	return ch
}

// Forget makes the next caller of key start a new run, even while one is in
// flight. Callers that already wait still get the result of the old run.
func (g *Group[K, V]) Forget(key K) {
	if key != key {
		return // also panics for an unhashable key, before the lock is taken
	}
	g.table.Lock()
	defer g.table.Unlock()
	g.table.DetachLocked(key)
}

// Len returns the number of keys with a run that a new caller would join.
func (g *Group[K, V]) Len() int {
	g.table.Lock()
	defer g.table.Unlock()
	return g.table.LenLocked()
}

// join adds the caller to the flight of key, and starts one if there is none. edge
// records that the caller waits for the flight; it may be nil.
func (g *Group[K, V]) join(ctx context.Context, key K, fn func(context.Context) (V, error)) (f *inflight.Flight[K, V], edge *lend.Edge, joined bool, err error) {
	if key != key {
		return nil, nil, false, ErrKey
	}
	within := lend.From(ctx)
	if g.table.Recursive(ctx, within, key) {
		return nil, nil, false, ErrRecursive
	}
	for {
		if ctx.Err() != nil {
			return nil, nil, false, wait.Cause(ctx)
		}
		g.table.Lock()
		f = g.table.FindLocked(key)
		if f == nil {
			l := g.table.StartLocked(ctx, key, false)
			edge = lend.Between(within, &l.Call)
			g.table.Unlock()
			go g.run(l, fn)
			return l.Flights()[0], edge, false, nil
		}
		if !f.Load().Ending() {
			f.JoinLocked()
			edge = lend.Between(within, &f.Load().Call)
			g.table.Unlock()
			return f, edge, true, nil
		}
		g.table.Unlock()
		// The function has returned, so its result is older than this call. Wait
		// until the flight has been removed from the table.
		select {
		case <-f.Load().Done():
		case <-ctx.Done():
		}
	}
}

// run calls fn, and ends the load even if fn panics or exits.
func (g *Group[K, V]) run(l *inflight.Load[K, V], fn func(context.Context) (V, error)) {
	var v V
	var err error
	returned := false
	defer func() {
		if !returned {
			err = fault(recover())
		}
		l.Return()
		g.finish(l, v, err)
	}()
	v, err = fn(l)
	returned = true
}

// finish makes the result final and wakes the waiting callers.
func (g *Group[K, V]) finish(l *inflight.Load[K, V], v V, err error) {
	g.table.Lock()
	if !l.FinalLocked() {
		f := l.Flights()[0]
		f.Value, f.Err = v, err
	}
	counts := l.CompleteLocked()
	g.table.Unlock()
	if counts {
		l.End(nil)
	}
}

// wait waits for the result or the end of ctx, the caller's own context. It returns an
// error if ctx ended first.
func (g *Group[K, V]) wait(ctx context.Context, f *inflight.Flight[K, V], edge *lend.Edge) error {
	defer edge.End()
	return f.Wait(ctx, g.Grace)
}

// result returns what a caller of f gets, after wait.
func result[K comparable, V any](f *inflight.Flight[K, V], joined bool, err error) Result[V] {
	if err != nil {
		return Result[V]{Err: err, Joined: joined}
	}
	return Result[V]{Value: f.Value, Err: f.Err, Joined: joined, Joiners: f.Joined()}
}
