package promote

import (
	"context"
	"runtime/debug"

	"github.com/weir-go/weir"
)

// A call is one caller's question to the Guard. It has a goroutine, so that its
// place in the flight can be kept when the caller leaves: were another to take a
// place then, the flight could be lost between the two.
type call[V any] struct {
	leave context.CancelCauseFunc // ends it with a cause
	done  chan struct{}           // closed when value and err are final

	value V     // written before done is closed, read only after
	err   error // as value
	over  bool  // guarded by Promoter.mu: the question is answered
}

// ask asks the Guard for key. The call ends when its caller says so, or at Close;
// within is the caller's ctx with its budget.
func (p *Promoter[K, V]) ask(ctx, within context.Context, key K) (*call[V], error) {
	// A call whose caller leaves before the budget is spent will not be
	// promoted: then the Guard's limiter may know when, and refuse what cannot
	// be in time.
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

// begin makes room for a goroutine, which calls p.all.Done. It reports false
// after Close.
func (p *Promoter[K, V]) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.all.Add(1)
	}
	return !p.closed
}

// get asks the Guard. It survives a panic of the user's hooks, such as
// weir.Source.Clone, on a goroutine that nobody else looks after.
func (p *Promoter[K, V]) get(ctx context.Context, key K) (v V, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &weir.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return p.g.Get(ctx, key)
}

// answer returns the Guard's answer to c, if there is one that is not to be
// promoted.
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

// keep lets c keep its place when its caller has left, until the load ends. It
// reports false if there is no need: it has ended, or another keeps a place of
// the key; or no room.
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
