package weir

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
)

// This file contains every call of a user's hook (a test enforces it), and
// defines what a panic or runtime.Goexit in one does:
//
//   - On the goroutine of the caller (Clone, Weigh in Set, BatchScope, KeyString
//     in Set and Invalidate) it happens to the caller, as in any function that
//     the caller calls.
//   - On a load's goroutine (LoadContext, KeyString, Weigh, Cost, Limiter.Acquire,
//     Clone of a previous value) it ends the load, as it would in the load function: the
//     callers get a *PanicError or ErrGoexit.
//   - A panic of Classify means ClassTransient. A panic of the Observer, of a
//     permit's Settle or Release, or of BatchScope for a background refresh is ignored. All
//     of them are counted. If they exit instead, the goroutine ends, a load's
//     only after its callers have their answer.
//   - A Tier that panics or exits is unavailable: see package fleetclient.
//
// Nothing can stop runtime.Goexit, so nothing may rely on the code after a hook.
// Anything taken before a hook (a joiner's place on a flight, a permit, a lease, an
// election, a count) is given back by a deferred call.

// clone returns the caller's own copy of a shared value.
func (g *Guard[K, V]) clone(v V) V {
	if g.src.Clone != nil {
		return g.src.Clone(v)
	}
	return v
}

// batchScope is Source.BatchScope, which must be set.
func (g *Guard[K, V]) batchScope(ctx context.Context, key K) any { return g.src.BatchScope(ctx, key) }

// weigh is Source.Weigh, which must be set.
func (g *Guard[K, V]) weigh(key K, v V) uint32 { return g.src.Weigh(key, v) }

// nameOf is the name of key in the fleet, which must exist.
func (g *Guard[K, V]) nameOf(key K) string { return g.fleet.names.name(key) }

// decode is Fleet.Codec's Unmarshal; a panic counts as a decoding error.
func (g *Guard[K, V]) decode(data []byte, v *V) error {
	err := errPanicked
	survive(&g.count.panics, func() { err = g.fleet.o.Codec.Unmarshal(data, v) })
	return err
}

// marshal and unmarshal are the methods of a snapshot's codec; a panic counts as an
// error of it.
func (g *Guard[K, V]) marshal(codec fleet.Codec, v any) (b []byte, err error) {
	err = errPanicked
	survive(&g.count.panics, func() { b, err = codec.Marshal(v) })
	return b, err
}

func (g *Guard[K, V]) unmarshal(codec fleet.Codec, b []byte, v any) error {
	err := errPanicked
	survive(&g.count.panics, func() { err = codec.Unmarshal(b, v) })
	return err
}

// errPanicked is returned for a codec that panicked.
var errPanicked = errors.New("weir: the codec panicked")

// loadContext returns the context whose values a load sees.
func (g *Guard[K, V]) loadContext(ctx context.Context) context.Context {
	if g.src.LoadContext == nil {
		return ctx
	}
	if own := g.src.LoadContext(ctx); own != nil {
		return own
	}
	return context.Background()
}

// costOf is Source.Cost, which must be set.
func (g *Guard[K, V]) costOf(key K) int { return g.src.Cost(key) }

// acquire gets a permit from the Limiter, which must be set: for one call, or with
// units above 0 for that many units.
func (g *Guard[K, V]) acquire(ctx context.Context, units int) (limit.Permit, error) {
	if units > 0 {
		return limit.AcquireN(ctx, g.o.Limiter, units)
	}
	return g.o.Limiter.Acquire(ctx)
}

// settle corrects the units of a permit.
func (g *Guard[K, V]) settle(p limit.Permit, units int) {
	survive(&g.count.panics, func() { p.Settle(units) })
}

// release gives a permit back.
func (g *Guard[K, V]) release(p limit.Permit, o limit.Outcome) {
	survive(&g.count.panics, func() { p.Release(o) })
}

// classifier wraps Options.Classify, which may be nil, so that its panics are
// survived.
func (g *Guard[K, V]) classifier(user func(error) Class) func(error) Class {
	if user == nil {
		return nil
	}
	return func(err error) (c Class) {
		survive(&g.count.panics, func() { c = user(err) })
		return c
	}
}

// observe calls fn with the Observer, if there is one. Callers check
// g.o.Observer themselves where building fn's arguments costs something.
func (g *Guard[K, V]) observe(fn func(Observer)) {
	if g.o.Observer != nil {
		survive(&g.count.observerPanics, func() { fn(g.o.Observer) })
	}
}

// event reports an Event about key. Call it last: it may not return.
func (g *Guard[K, V]) event(ctx context.Context, kind EventKind, key K, err error) {
	if g.o.Observer != nil {
		g.report(ctx, Event{Kind: kind, Key: key, Err: err})
	}
}

// report reports e after filling in its Guard. Call it last, like event.
func (g *Guard[K, V]) report(ctx context.Context, e Event) {
	e.Guard = g.o.Name
	g.observe(func(o Observer) { o.Event(ctx, e) })
}

// survive calls fn and recovers from a panic. It counts panics and
// runtime.Goexit in n.
func survive(n *atomic.Uint64, fn func()) {
	returned := false
	defer func() {
		if !returned {
			_ = recover()
			n.Add(1)
		}
	}()
	fn()
	returned = true
}
