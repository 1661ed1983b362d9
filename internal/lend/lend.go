// Package lend knows which call waits for which, so that a call that waits can
// lend its permit to the one that it waits for (decision 0022).
//
// A [Call] is one run of a function that others may wait for: a load, a bulk
// call, a request. A Call that waits for another Call adds an edge to
// the graph. A Call that wants a permit of a pool gets one lent by any Call above
// it, that is one that waits for it, or for one that waits for it, and so on. The
// pool says which of its permits can be lent.
//
// The graph has one lock for all, which is taken only where a call is made from
// within another. Below it comes the lock of a pool.
package lend

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Pool gives out permits, and lends those that are out. Its methods are called
// with the graph locked.
type Pool interface {
	// Lend lends the permit id of from, and returns that of the borrower. It
	// reports false if the permit is lent already, or is none any more.
	Lend(id uint64, from *Call) (loan uint64, ok bool)
	// LendTo is Lend for a waiter in the pool's queue, which it takes out.
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
	held    atomic.Pointer[[]Held] // what it may lend; a permit that was released does no harm
	want    atomic.Pointer[want]   // where it is queued
	waiters atomic.Int32           // number of edges above

	above map[*Edge]struct{} // guarded by mu: calls that wait for it
	below map[*Edge]struct{} // guarded by mu: what it waits for
	seen  uint64             // guarded by mu: the last search that came by
}

// A want is a place in a pool's queue.
type want struct {
	pool   Pool
	waiter any
}

// An Edge says that one Call waits for another.
type Edge struct{ from, to *Call } // guarded by mu

var (
	mu     sync.Mutex
	search uint64       // guarded by mu: number of the last one
	edges  atomic.Int64 // how many there are; an atomic for loads that have none
)

// key is of size zero, so that a look-up allocates nothing.
type key struct{}

// IsKey reports whether k is the key under which a context of another type is to
// return its *Call.
func IsKey(k any) bool { _, ok := k.(key); return ok }

// From returns the innermost Call that ctx was given to, or nil.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

// Context returns a copy of ctx for what runs as c.
func Context(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Any reports whether any Call waits for another.
func Any() bool { return edges.Load() > 0 }

// Wait notes that the holder of ctx waits for to. If that is from within a Call, what
// is queued at or below to may now be lent its permits. It returns nil if there
// is nothing to note. It asks ctx, so no lock may be held.
func Wait(ctx context.Context, to *Call) *Edge { return Between(From(ctx), to) }

// Between is Wait for a caller within from, which may be nil. It calls nothing of
// the user's.
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

// attachLocked puts e above its end, and lends what is wanted there. mu must be
// held.
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

// Move notes that e's caller waits for another Call now. e may be nil.
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

// End notes that the waiting is over. It may be called twice, and e be nil.
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

// Hold replaces what c may lend.
func (c *Call) Hold(held []Held) { c.held.Store(&held) }

// Borrow returns a permit of p that a Call above c lends.
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

// Queue notes that c is queued in p, as w, until Unqueue. If it can be lent a
// permit, now or later, p.LendTo is called.
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

// Unqueue ends that.
func (c *Call) Unqueue() { c.want.Store(nil) }

// Returned is called by a pool, with no lock held, when a permit that c has lent
// has come back and c has not ended: others below it may be queued.
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

// lendBelowLocked lends permits to what is queued at c or below. mu must be held.
func (c *Call) lendBelowLocked() {
	for _, b := range c.belowLocked() {
		b.satisfyLocked()
	}
}

// lendersLocked goes through the permits of p that are held above c, the nearest
// first, until lend reports true. mu must be held.
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

// belowLocked returns c and all that it waits for, near or far. mu must be held.
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
