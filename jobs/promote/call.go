package promote

import (
	"context"
	"runtime/debug"

	"github.com/weir-go/weir"
)

// A call is one caller's request to the Guard. It has a goroutine, so that it can
// keep its place in the flight when the caller leaves. If another goroutine had to
// take over the place, the flight could be abandoned between the two.
type call[V any] struct {
	leave context.CancelCauseFunc // ends it with a cause
	done  chan struct{}           // closed when value and err are final

	value V     // written before done is closed, read only after
	err   error // as value
	over  bool  // guarded by Promoter.mu: the Guard has returned
}

// ask sends a request for key to the Guard. The call ends when its leave function is
// called, or at Close; within is the caller's ctx with its budget.
func (p *Promoter[K, V]) ask(ctx, within context.Context, key K) (*call[V], error) {
	// If the caller's deadline ends before the budget, the call will not be promoted.
	// Then pass the deadline on, so that the Guard's limiter can refuse a call that
	// cannot be on time.
	values := ctx
	end, _ := within.Deadline()
	if mine, ok := ctx.Deadline(); !ok || mine.After(end) {
		values = context.WithoutCancel(ctx)
	}
	asking, leave := context.WithCancelCause(values)
	c := &call[V]{leave: leave, done: make(chan struct{})}
	if within.Err() != nil { // no budget: no call
		leave(errLate)
		c.err, c.over = errLate, true
		close(c.done)
		return c, nil
	}
	if !p.begin() {
		leave(ErrClosed)
		return nil, ErrClosed
	}
	unhook := context.AfterFunc(p.ctx, func() { leave(ErrClosed) })
	go func() {
		defer p.all.Done()
		defer leave(nil)
		defer unhook()
		c.value, c.err = p.get(asking, key)
		p.mu.Lock()
		c.over = true
		if p.kept[key] == c {
			delete(p.kept, key)
		}
		p.mu.Unlock()
		close(c.done)
	}()
	return c, nil
}

// begin registers a goroutine, which must call p.all.Done. It returns false after
// Close.
func (p *Promoter[K, V]) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.all.Add(1)
	}
	return !p.closed
}

// get calls the Guard. It recovers from a panic of the user's hooks, such as
// weir.Source.Clone: no other code on this goroutine would.
func (p *Promoter[K, V]) get(ctx context.Context, key K) (v V, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &weir.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return p.g.Get(ctx, key)
}

// answer returns the Guard's result of c, if there is one that is not to be promoted.
func (p *Promoter[K, V]) answer(c *call[V]) (v V, ok bool, err error) {
	select {
	case <-c.done:
		if c.err != errLate && !p.refused(c.err) {
			return c.value, true, c.err
		}
	default:
	}
	return v, false, nil
}

// keep lets c hold its place after its caller has left, until the load ends. It
// returns false if c has ended, if another call already holds a place for the key, or
// if MaxPromoted is reached.
func (p *Promoter[K, V]) keep(key K, c *call[V]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.over || p.kept[key] != nil {
		return false
	}
	if len(p.kept) >= p.o.MaxPromoted {
		p.stats.Unkept++
		return false
	}
	p.kept[key] = c
	return true
}
