// Package stop has contexts that can be canceled with a cause, and that cost nothing until
// something waits for them.
//
// A context of package context is registered with its parent when it is made: a channel, an
// entry in a map and two locks, for each layer of a request. Nearly all requests end before
// anything waits for their contexts. So a [Context] is registered only when its Done is called,
// when package context derives a context from it, or by [On]. Until then it is a field of the
// value that it belongs to. A chain of Contexts, with [WithValue] in between, passes on what
// [On] registers, without contexts of package context.
package stop

import (
	"context"
	"sync"
	"time"
)

var _ context.Context = (*Context)(nil)

// A Context is a context that can be canceled. Call Start first, and Cancel at the end. It
// must not be copied, and not be used again for another purpose: those that hold it longer
// must see that it has ended. It is safe for concurrent use, except for Start.
type Context struct {
	parent context.Context
	own    hook // with the parent, if that is a Context

	mu       sync.Mutex
	std      context.Context         // guarded by mu; nil until it is needed, see real
	end      context.CancelCauseFunc // guarded by mu; of std
	over     bool                    // guarded by mu; Cancel came before the end of the parent
	cause    error                   // guarded by mu; of over
	hooks    *hook                   // guarded by mu
	attached bool                    // guarded by mu; c is registered with its parent, or is about to be
	above    Hook                    // guarded by mu; that registration
}

// A hook is what a Context calls at its end: a function, or a Context below.
type hook struct {
	of    *Context
	f     func()
	below *Context
	next  *hook // guarded by of.mu
}

// A Hook is a function that was registered with [On]. The zero Hook is none.
type Hook struct {
	h   *hook
	std func() bool
}

// Start makes c a child of parent.
func (c *Context) Start(parent context.Context) {
	c.parent = parent
	if cancelKey == nil {
		c.real()
	}
}

// Cancel cancels c, and the contexts derived from it. The first call sets the cause;
// nil means context.Canceled.
func (c *Context) Cancel(cause error) {
	gone := c.parent.Err() != nil
	c.mu.Lock()
	if c.over || gone && c.std == nil {
		c.mu.Unlock()
		return
	}
	c.over, c.cause = true, cause
	end := c.end
	hooks, above := c.takeLocked()
	c.mu.Unlock()
	above.Remove()
	if end != nil {
		end(cause)
	}
	hooks.run()
}

// takeLocked takes the hooks off c, and returns its registration with the parent. c.mu must
// be held.
func (c *Context) takeLocked() (hooks *hook, above Hook) {
	hooks, above = c.hooks, c.above
	c.hooks, c.above, c.attached = nil, Hook{}, false
	return hooks, above
}

// ended is called when the parent has ended.
func (c *Context) ended() {
	c.mu.Lock()
	hooks, _ := c.takeLocked()
	c.mu.Unlock()
	hooks.run()
}

// run calls h and those behind it. A Context below may register itself again as soon as it
// was called, so next is read before.
func (h *hook) run() {
	for h != nil {
		next := h.next
		if h.below != nil {
			h.below.ended()
		} else {
			go h.f()
		}
		h = next
	}
}

// Deadline implements [context.Context].
func (c *Context) Deadline() (deadline time.Time, ok bool) { return c.parent.Deadline() }

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.real().Done() }

// Err implements [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	std, over := c.std, c.over
	c.mu.Unlock()
	switch {
	case std != nil:
		return std.Err()
	case over:
		return context.Canceled
	}
	return c.parent.Err()
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	if key == cancelKey {
		return c.real().Value(key)
	}
	return c.parent.Value(key)
}

// real returns a context of package context that ends with c.
func (c *Context) real() context.Context {
	c.mu.Lock()
	std, over := c.std, c.over
	c.mu.Unlock()
	if std != nil {
		return std
	}
	parent := c.parent
	if over { // the parent may have ended since
		parent = Detach(parent)
	}
	std, end := context.WithCancelCause(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.std != nil { // another goroutine was faster
		end(nil)
		return c.std
	}
	if c.over {
		end(c.cause) // before any other goroutine can see that std is alive
	}
	c.std, c.end = std, end
	return std
}

// cancelKey is the key by which package context asks a context for the one that it derives
// others from, and for the cause of its end. If there is none, each Context makes one of
// package context at its start.
var cancelKey = func() any {
	p := &probe{Context: context.Background()}
	_ = context.Cause(p)
	return p.key
}()

// A probe is a context that has ended, and records the key that it was last asked for.
type probe struct {
	context.Context
	key any
}

func (p *probe) Err() error { return context.Canceled }

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// On arranges to call f in a goroutine once ctx has ended, as [context.AfterFunc] does.
func On(ctx context.Context, f func()) Hook {
	if c := contextOf(ctx); c != nil {
		h := &hook{of: c, f: f}
		c.add(h)
		return Hook{h: h}
	}
	return Hook{std: context.AfterFunc(ctx, f)}
}

// Remove keeps f from being called. It returns false if f has been started, or removed before.
func (h Hook) Remove() bool {
	switch {
	case h.h != nil:
		return h.h.of.remove(h.h)
	case h.std != nil:
		return h.std()
	}
	return false
}

// contextOf returns the Context that ctx ends with, or nil.
func contextOf(ctx context.Context) *Context {
	for {
		switch c := ctx.(type) {
		case interface{ self() *Context }:
			return c.self()
		case *valued:
			ctx = c.Context
		default:
			return nil
		}
	}
}

// self returns c, also for a type that embeds it.
func (c *Context) self() *Context { return c }

// add registers h, and c with its parent, unless it is.
func (c *Context) add(h *hook) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		h.next = nil
		h.run()
		return
	}
	h.next, c.hooks = c.hooks, h
	attach := !c.attached
	c.attached = true
	c.mu.Unlock()
	if !attach {
		return
	}
	var above Hook
	if p := contextOf(c.parent); p != nil {
		c.own.of, c.own.below = p, c
		p.add(&c.own)
		above.h = &c.own
	} else if c.parent.Done() != nil {
		above.std = context.AfterFunc(c.parent, c.ended)
	}
	c.mu.Lock()
	kept := c.attached
	if kept {
		c.above = above
	}
	c.mu.Unlock()
	if !kept { // c has ended in the meantime
		above.Remove()
	}
}

// remove takes h off c, and reports whether it was there.
func (c *Context) remove(h *hook) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := &c.hooks; *at != nil; at = &(*at).next {
		if *at == h {
			*at = h.next
			return true
		}
	}
	return false
}

// A detached has the values of a context, and nothing else.
type detached struct{ context.Context }

// Detach is [context.WithoutCancel], except that looking up a value in the new context
// allocates nothing.
func Detach(ctx context.Context) context.Context { return &detached{ctx} }

// Deadline implements [context.Context].
func (*detached) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements [context.Context].
func (*detached) Done() <-chan struct{} { return nil }

// Err implements [context.Context].
func (*detached) Err() error { return nil }

// Value implements [context.Context].
func (d *detached) Value(key any) any {
	if key == cancelKey {
		return nil
	}
	return d.Context.Value(key)
}

// A valued is a context with a value.
type valued struct {
	context.Context
	key, value any
}

// WithValue is [context.WithValue], through which [On] finds the Context above.
func WithValue(ctx context.Context, key, value any) context.Context {
	return &valued{ctx, key, value}
}

// Value implements [context.Context].
func (v *valued) Value(key any) any {
	if key == v.key {
		return v.value
	}
	return v.Context.Value(key)
}
