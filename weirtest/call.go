package weirtest

import (
	"context"
	"slices"

	"github.com/weir-go/weir"
)

// A Call is one load of a [Loader], returned by [Loader.Next],
// [Loader.Started] and [Loader.Calls]. It is safe for concurrent use.
//
// While the load is held, Release lets it continue with the answer from its script.
// Return, ReturnEntry, Fail, Panic and Goexit replace that answer, for all keys of a
// bulk load. On a load that is not held, these methods do nothing.
type Call[K comparable, V any] struct {
	l    *Loader[K, V]
	keys []K
	ctx  context.Context
	prev []weir.Previous[V] // of the keys; zero or nil in Load and LoadMany
	deaf bool               // written before the load is visible to other goroutines

	open    bool           // guarded by l.mu: it is not held, or no longer
	gate    chan struct{}  // closed when open becomes true
	answers []answer[K, V] // guarded by l.mu until gate is closed; one for each key

	done  chan struct{} // closed when the load returns
	cause error         // written before done is closed, read only after
}

// Keys returns the keys of the load: one, or those of a bulk load in its order.
func (c *Call[K, V]) Keys() []K { return slices.Clone(c.keys) }

// Context returns the context of the load.
func (c *Call[K, V]) Context() context.Context { return c.ctx }

// Previous returns the Previous that LoadEntry received, or that LoadEntries received
// for its first key.
func (c *Call[K, V]) Previous() weir.Previous[V] { return c.PreviousOf(c.keys[0]) }

// PreviousOf returns the Previous that LoadEntry or LoadEntries received for key, or
// the zero Previous for a key that the load does not have.
func (c *Call[K, V]) PreviousOf(key K) weir.Previous[V] {
	if i := slices.Index(c.keys, key); i >= 0 && i < len(c.prev) {
		return c.prev[i]
	}
	return weir.Previous[V]{}
}

// Done is closed when the load returns, panics or exits.
func (c *Call[K, V]) Done() <-chan struct{} { return c.done }

// Cause returns why the load's context ended before the load returned, such as
// weir.ErrAbandoned, or nil if the load returned first. While the load runs, Cause returns the
// current cause of its context. A Guard ends the context of each load that has
// returned; Cause does not report that.
func (c *Call[K, V]) Cause() error {
	select {
	case <-c.done:
		return c.cause
	default:
		return context.Cause(c.ctx)
	}
}

// Release lets the load continue, regardless of Block.
func (c *Call[K, V]) Release() { c.release(nil) }

// Return makes the load return v.
func (c *Call[K, V]) Return(v V) { c.release(returns[K](weir.Entry[V]{Value: v})) }

// ReturnEntry makes the load return e. Load and LoadMany return only its Value.
func (c *Call[K, V]) ReturnEntry(e weir.Entry[V]) { c.release(returns[K](e)) }

// Fail makes the load fail with err.
func (c *Call[K, V]) Fail(err error) { c.release(fails[K, V](err)) }

// Panic makes the load panic with v.
func (c *Call[K, V]) Panic(v any) { c.release(panics[K, V](v)) }

// Goexit makes the load call runtime.Goexit.
func (c *Call[K, V]) Goexit() { c.release(exits[K, V]) }

// release opens the gate. If a is not nil, it replaces the answers.
func (c *Call[K, V]) release(a answer[K, V]) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.open {
		return
	}
	if a != nil {
		for i := range c.answers {
			c.answers[i] = a
		}
	}
	c.openLocked()
}

// blockedLocked reports whether Block holds the load. l.mu must be held.
func (c *Call[K, V]) blockedLocked() bool { return slices.ContainsFunc(c.keys, c.l.blocked.of) }

// openLocked lets the load continue. l.mu must be held.
func (c *Call[K, V]) openLocked() {
	if !c.open {
		c.open = true
		close(c.gate)
	}
}

// hold waits until the load may continue. If it returns an error, the load must fail
// with that.
func (c *Call[K, V]) hold() error {
	if c.deaf {
		<-c.gate
		return nil
	}
	select {
	case <-c.gate:
		return nil
	case <-c.ctx.Done():
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.open {
		return nil // released at the same moment: the release wins, so that no answer is lost
	}
	return context.Cause(c.ctx)
}

// answer returns the result for the ith key.
func (c *Call[K, V]) answer(i int) (weir.Entry[V], error) { return c.answers[i](c.ctx, c.keys[i]) }

// end records that the load returns. It is deferred, so that it also runs for loads
// that panic.
func (c *Call[K, V]) end() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.running--
	c.cause = context.Cause(c.ctx)
	close(c.done)
}
