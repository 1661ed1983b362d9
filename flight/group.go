package flight

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
)

// Never is a [Group.Grace] with which a call runs to its end, also when nobody
// waits for it any more.
const Never time.Duration = inflight.Never

// A Group runs one call per key at a time. The zero Group is ready to use. It
// is safe for concurrent use and must not be copied after first use. It owns no
// goroutine but those of running calls, so there is nothing to close.
//
// Keys are compared with ==. Whatever decides the answer (tenant, language,
// permissions) belongs into the key, since callers with equal keys get the
// same result.
type Group[K comparable, V any] struct {
	// Grace says what happens to a call whose last caller has left. Zero: it
	// is canceled at once. Positive: it is canceled after that time unless
	// somebody has joined it. Negative ([Never]): it runs to its end and may
	// be joined until then. It must not be changed after first use.
	Grace time.Duration

	table inflight.Table[K, V]
}

// A Result is what a call ended with.
type Result[V any] struct {
	Value V
	Err   error

	// Joined reports that this call joined one that was running already.
	Joined bool

	// Joiners is the number of callers that were ever on the call, the one
	// that started it included. It is 0 if the caller left before the end.
	Joiners int
}

// Do runs fn for key, or waits for the run that is in flight, and returns its
// result.
//
// fn runs on a goroutine of its own. Its context carries the values of ctx, of
// the caller that started it, but neither its deadline nor its cancellation:
// it ends with cause [ErrAbandoned] when the last caller has left (see
// [Group.Grace]).
//
// A fn that asks for other keys must bound its wait for them: two runs that
// wait for each other's keys, started by two callers, would never end. A
// run that waits for itself, alone or through others that it started, gets
// [ErrRecursive].
//
// If ctx ends first, Do leaves at once and returns context.Cause(ctx), unless
// the result is there already. If ctx has ended before, no run is started.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(context.Context) (V, error)) (V, error) {
	r := g.DoResult(ctx, key, fn)
	return r.Value, r.Err
}

// DoResult is [Group.Do] with a result that tells how it came about.
func (g *Group[K, V]) DoResult(ctx context.Context, key K, fn func(context.Context) (V, error)) Result[V] {
	f, edge, joined, err := g.join(ctx, key, fn)
	if err != nil {
		return Result[V]{Err: err}
	}
	return g.wait(ctx, f, edge, joined)
}

// DoChan is [Group.DoResult] for callers that wait for several things: the
// channel receives the one result and is not closed. The call is joined before
// DoChan returns, and left when ctx ends.
func (g *Group[K, V]) DoChan(ctx context.Context, key K, fn func(context.Context) (V, error)) <-chan Result[V] {
	ch := make(chan Result[V], 1)
	f, edge, joined, err := g.join(ctx, key, fn)
	if err != nil {
		ch <- Result[V]{Err: err}
		return ch
	}
	go func() { ch <- g.wait(ctx, f, edge, joined) }()
	return ch
}

// Forget makes the next caller of key start a new run, even while one is in
// flight. Callers that wait for that one still get its result.
func (g *Group[K, V]) Forget(key K) {
	if key != key {
		return // also panics for an unhashable key, before the lock is taken
	}
	g.table.Lock()
	defer g.table.Unlock()
	g.table.DetachLocked(key)
}

// Len returns the number of keys that have a run which a caller would join.
func (g *Group[K, V]) Len() int {
	g.table.Lock()
	defer g.table.Unlock()
	return g.table.LenLocked()
}

// join puts the caller on the flight of key, and starts one if there is none. The
// edge, which may be nil, says that the caller waits for it.
func (g *Group[K, V]) join(ctx context.Context, key K, fn func(context.Context) (V, error)) (f *inflight.Flight[K, V], edge *lend.Edge, joined bool, err error) {
	if key != key {
		return nil, nil, false, ErrKey
	}
	if g.table.Recursive(ctx, key) {
		return nil, nil, false, ErrRecursive
	}
	within := lend.From(ctx)
	for {
		if ctx.Err() != nil {
			return nil, nil, false, context.Cause(ctx)
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
		// The function has returned: its result is older than this call. It
		// takes a moment until the flight is off the table.
		select {
		case <-f.Load().Done():
		case <-ctx.Done():
		}
	}
}

// run calls fn, and ends the load whatever fn does.
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

// finish makes the result final and wakes the callers that wait.
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

// wait waits on the caller's own context.
func (g *Group[K, V]) wait(ctx context.Context, f *inflight.Flight[K, V], edge *lend.Edge, joined bool) Result[V] {
	defer edge.End()
	if err := f.Wait(ctx, g.Grace); err != nil {
		return Result[V]{Err: err, Joined: joined}
	}
	return Result[V]{Value: f.Value, Err: f.Err, Joined: joined, Joiners: f.Joined()}
}
