// Package lend tracks which call waits for which, so that a waiting call can lend
// its permit to the call that it waits for (decision 0022).
//
// A [Call] is one run of a function that others may wait for: a load, a bulk
// call, a request. A Call that waits for another Call adds an edge to the graph.
// A Call that wants a permit of a pool can borrow one from any Call above it,
// that is, any Call that waits for it directly or indirectly. The pool decides
// which of its permits can be lent.
//
// The graph has a single lock, which is taken only when a call is made from
// within another. The lock of a pool comes after it in the lock order.
package lend

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Pool grants permits, and lends those that are in use. Its methods are called
// with the graph locked.
type Pool interface {
	// Lend lends the permit id of from, and returns the borrower's permit. It
	// returns false if the permit is already lent, or no longer exists.
	Lend(id uint64, from *Call) (loan uint64, ok bool)
	// LendTo is Lend for a waiter in the pool's queue, which it removes from the
	// queue.
	LendTo(w any, id uint64, from *Call) bool
}

// A Held is a permit of a pool.
type Held struct {
	Pool Pool
	ID   uint64
}

// A Call is a node of the graph. The zero Call is ready to use. It must not be
// copied.
type Call struct {
	held    atomic.Pointer[[]Held] // what it can lend; a released permit in it does no harm
	want    atomic.Pointer[want]   // where it is queued
	waiters atomic.Int32           // number of edges from calls above

	above map[*Edge]struct{} // guarded by mu: calls that wait for it
	below map[*Edge]struct{} // guarded by mu: calls that it waits for
	seen  uint64             // guarded by mu: the last search that visited it
}

// A want is a place in a pool's queue.
type want struct {
	pool   Pool
	waiter any
}

// An Edge records that one Call waits for another.
type Edge struct{ from, to *Call } // guarded by mu

var (
	mu     sync.Mutex
	search uint64       // guarded by mu: number of the last search
	edges  atomic.Int64 // number of edges; atomic so that loads without any skip the lock
)

// key has size zero, so a lookup allocates nothing.
type key struct{}

// IsKey reports whether k is the key for which a custom context type must return
// its *Call.
func IsKey(k any) bool { _, ok := k.(key); return ok }

// From returns the innermost Call that ctx belongs to, or nil.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

// Context returns a copy of ctx for work that runs as part of c.
func Context(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Value returns the key and the value of the contexts that Context returns, for a caller that
// makes them itself.
func Value(c *Call) (k, value any) { return key{}, c }

// Any reports whether any Call waits for another.
func Any() bool { return edges.Load() > 0 }

// Wait records that the holder of ctx waits for to. If ctx is within a Call, any
// Call queued at or below to can now borrow that Call's permits. It returns nil
// if there is nothing to record. It calls ctx, so no lock may be held.
func Wait(ctx context.Context, to *Call) *Edge { return Between(From(ctx), to) }

// Between is Wait for a caller within from, which may be nil. It calls no user
// code.
func Between(from, to *Call) *Edge {
	if from == nil || from == to {
		return nil
	}
	e := &Edge{from: from, to: to}
	mu.Lock()
	defer mu.Unlock()
	edges.Add(1)
	if from.below == nil {
		from.below = make(map[*Edge]struct{})
	}
	from.below[e] = struct{}{}
	e.attachLocked()
	return e
}

// attachLocked puts e above its end, and lends the permits wanted there. mu must
// be held.
func (e *Edge) attachLocked() {
	to := e.to
	if to.above == nil {
		to.above = make(map[*Edge]struct{})
	}
	to.above[e] = struct{}{}
	to.waiters.Add(1)
	to.lendBelowLocked()
}

func (e *Edge) detachLocked() {
	delete(e.to.above, e)
	e.to.waiters.Add(-1)
}

// Move records that e's caller now waits for another Call. e may be nil.
func (e *Edge) Move(to *Call) {
	if e == nil {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if e.from == nil {
		return
	}
	e.detachLocked()
	e.to = to
	e.attachLocked()
}

// End records that the wait is over. It may be called twice, and on a nil Edge.
func (e *Edge) End() {
	if e == nil {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if e.from == nil {
		return
	}
	e.detachLocked()
	delete(e.from.below, e)
	e.from = nil
	edges.Add(-1)
}

// Hold replaces the permits that c can lend.
func (c *Call) Hold(held []Held) { c.held.Store(&held) }

// Borrow returns a permit of p borrowed from a Call above c.
func (c *Call) Borrow(p Pool) (id uint64, ok bool) {
	if c.waiters.Load() == 0 {
		return 0, false
	}
	mu.Lock()
	defer mu.Unlock()
	ok = c.lendersLocked(p, func(h Held, from *Call) (lent bool) {
		id, lent = p.Lend(h.ID, from)
		return lent
	})
	return id, ok
}

// Queue records that c is queued in p, as w, until Unqueue. If it can borrow a
// permit, now or later, p.LendTo is called. It checks again after recording,
// because of this race:
//
//	C: finds nothing to borrow, and is put into the queue
//	A: begins to wait for C, and finds that C wants nothing
//	C: notes what it wants, and must look again
func (c *Call) Queue(p Pool, w any) {
	c.want.Store(&want{p, w})
	if c.waiters.Load() == 0 {
		return // later callers find want
	}
	mu.Lock()
	defer mu.Unlock()
	c.satisfyLocked()
}

// Unqueue records that c is no longer queued.
func (c *Call) Unqueue() { c.want.Store(nil) }

// Returned is called by a pool, without a lock held, when a permit that c lent
// has come back and c has not ended: other calls below it may be queued.
func (c *Call) Returned() {
	mu.Lock()
	defer mu.Unlock()
	c.lendBelowLocked()
}

// satisfyLocked lends c a permit if it wants one. mu must be held.
func (c *Call) satisfyLocked() {
	w := c.want.Load()
	if w == nil {
		return
	}
	c.lendersLocked(w.pool, func(h Held, from *Call) bool { return w.pool.LendTo(w.waiter, h.ID, from) })
}

// lendBelowLocked lends permits to calls that are queued at c or below. mu must
// be held.
func (c *Call) lendBelowLocked() {
	for _, b := range c.belowLocked() {
		b.satisfyLocked()
	}
}

// lendersLocked iterates over the permits of p held above c, nearest first, until
// lend returns true. mu must be held.
func (c *Call) lendersLocked(p Pool, lend func(Held, *Call) bool) bool {
	search++
	c.seen = search
	queue := []*Call{c}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for e := range at.above {
			a := e.from
			if a.seen == search {
				continue
			}
			a.seen = search
			if held := a.held.Load(); held != nil {
				for _, h := range *held {
					if h.Pool == p && lend(h, a) {
						return true
					}
				}
			}
			queue = append(queue, a)
		}
	}
	return false
}

// belowLocked returns c and all calls that it waits for, directly or indirectly.
// mu must be held.
func (c *Call) belowLocked() []*Call {
	search++
	c.seen = search
	all := []*Call{c}
	for i := 0; i < len(all); i++ {
		for e := range all[i].below {
			if b := e.to; b.seen != search {
				b.seen = search
				all = append(all, b)
			}
		}
	}
	return all
}
