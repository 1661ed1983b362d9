package weirtest

import (
	"context"
	"slices"

	"github.com/weir-go/weir"
)

// A Call is one load of a [Loader], returned by [Loader.Next],
// [Loader.Started] and [Loader.Calls]. It is safe for concurrent use.
//
// While it is held, Release lets it go on to the answer it took from its
// script, and Return, ReturnEntry, Fail, Panic and Goexit give it another one,
// the same for all keys of a bulk load. On a load that is not held they do
// nothing.
type Call[K comparable, V any] struct {
	l    *Loader[K, V]
	keys []K
	ctx  context.Context
	prev []weir.Previous[V] // of the keys; none in Load and LoadMany
	deaf bool               // written before the load is known to anybody else

	open    bool           // guarded by l.mu: it is not held, or not any more
	gate    chan struct{}  // closed when open turns true
	answers []answer[K, V] // guarded by l.mu until gate is closed; one for each key

	done  chan struct{} // closed when the load returns
	cause error         // written before done is closed, read only after
}

// Keys returns the keys of the load: one, or those of a bulk load in its order.
func (c *Call[K, V]) Keys() []K { return slices.Clone(c.keys) }

// Context returns the context that the load was given.
func (c *Call[K, V]) Context() context.Context { return c.ctx }

// Previous returns what LoadEntry got about the previous value, and
// LoadEntries about that of its first key.
func (c *Call[K, V]) Previous() weir.Previous[V] { return c.PreviousOf(c.keys[0]) }

// PreviousOf returns what LoadEntry or LoadEntries got about the previous
// value of key; nothing for a key that the load is not for.
func (c *Call[K, V]) PreviousOf(key K) weir.Previous[V] {
	if i := slices.Index(c.keys, key); i >= 0 && i < len(c.prev) {
		return c.prev[i]
	}
	return weir.Previous[V]{}
}

// Done is closed when the load returns, panics or exits.
func (c *Call[K, V]) Done() <-chan struct{} { return c.done }

// Cause returns why the load's context ended before the load returned, such as
// weir.ErrAbandoned, and nil if it did not. While the load runs it tells how
// things stand now. A Guard ends the context of each load that has returned;
// that does not show here.
func (c *Call[K, V]) Cause() error {
	select {
	case <-c.done:
		return c.cause
	default:
		return context.Cause(c.ctx)
	}
}

// Release lets the load go on, whatever Block says.
func (c *Call[K, V]) Release() { c.release(nil) }

// Return answers with v.
func (c *Call[K, V]) Return(v V) { c.release(returns[K](weir.Entry[V]{Value: v})) }

// ReturnEntry answers with e. Load and LoadMany return its Value alone.
func (c *Call[K, V]) ReturnEntry(e weir.Entry[V]) { c.release(returns[K](e)) }

// Fail answers with err.
func (c *Call[K, V]) Fail(err error) { c.release(fails[K, V](err)) }

// Panic makes the load panic with v.
func (c *Call[K, V]) Panic(v any) { c.release(panics[K, V](v)) }

// Goexit makes the load call runtime.Goexit.
func (c *Call[K, V]) Goexit() { c.release(exits[K, V]) }

// release opens the gate, with another answer unless a is nil.
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

// openLocked lets the load go on. l.mu must be held.
func (c *Call[K, V]) openLocked() {
	if !c.open {
		c.open = true
		close(c.gate)
	}
}

// hold waits until the load may go on. It returns an error if the load is to
// end with that.
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
		return nil // released at the same moment: that counts, so that no answer is lost
	}
	return context.Cause(c.ctx)
}

// answer is the answer for the ith key.
func (c *Call[K, V]) answer(i int) (weir.Entry[V], error) { return c.answers[i](c.ctx, c.keys[i]) }

// end notes that the load returns. It is deferred, for loads that panic.
func (c *Call[K, V]) end() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.running--
	c.cause = context.Cause(c.ctx)
	close(c.done)
}
