package weir

import (
	"context"
	"math/rand/v2"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
)

// GetMany is [Guard.GetResult] for several keys: it answers from memory what
// it can, joins the loads that are running for others, and loads the rest in
// one call of Source.LoadMany, under one permit; with Options.Batch in one for
// each scope and MaxSize keys. Without LoadMany it starts a load for each. The
// map has one result for each distinct key.
//
// When ctx ends, the keys that have no answer yet get its cause. A bulk load
// is cancelled when the callers of all its keys have left.
func (g *Guard[K, V]) GetMany(ctx context.Context, keys []K) map[K]Result[V] {
	results := make(map[K]Result[V], len(keys))
	counted := make(map[K]bool) // of keys that are looked at again, those that were on a load
	for len(keys) > 0 {
		keys = g.manyOnce(ctx, keys, results, counted)
		for _, key := range keys {
			delete(results, key)
		}
	}
	return results
}

// manyOnce is GetMany up to where memory must be looked at again for some of
// the keys, which it returns. That is rare, but then it may be so for many, and
// they must not be loaded one by one.
func (g *Guard[K, V]) manyOnce(ctx context.Context, keys []K, results map[K]Result[V], counted map[K]bool) []K {
	missing := g.manyFromMemory(ctx, keys, results, counted)
	if len(missing) == 0 {
		return nil
	}
	calls, again := g.loadMany(ctx, missing, results, counted)
	for i := range calls { // all of them wait from now on, though one after another is looked after
		calls[i].waitStart()
	}
	for _, c := range calls {
		if c.settling {
			c.pass(c.flight)
		} else if r, ok := c.awaitOn(c.flight, c.joined); ok {
			results[c.key] = r
			continue
		} else {
			counted[c.key] = true
		}
		again = append(again, c.key)
	}
	return again
}

// manyFromMemory answers what memory can, starts one refresh for all that are
// due, and returns the other keys.
func (g *Guard[K, V]) manyFromMemory(ctx context.Context, keys []K, results map[K]Result[V], counted map[K]bool) []missing[K, V] {
	var rest []missing[K, V]
	var due []K
	var dueEntries []*entry[V]
	now := g.now()
	for _, key := range keys {
		if checkKey(key) != nil {
			results[key] = Result[V]{Err: ErrKey}
			g.count.rejected.Add(1)
			continue
		}
		if _, seen := results[key]; seen {
			continue
		}
		if g.hot != nil {
			g.asked(key, rand.Uint64(), now)
		}
		e := g.lookup(key)
		elected := g.elect(e, now)
		if r, ok := g.fromMemory(key, e, now, counted[key]); ok {
			results[key] = r
		} else {
			results[key] = Result[V]{} // seen; loadMany fills it
			rest = append(rest, missing[K, V]{key, e})
		}
		if elected {
			due, dueEntries = append(due, key), append(dueEntries, e)
		}
	}
	if len(due) > 0 {
		g.refreshMany(ctx, due, dueEntries, now)
	}
	return rest
}

// missing is a key that memory does not answer, and what it holds.
type missing[K comparable, V any] struct {
	key   K
	entry *entry[V]
}

// turnedCall is a call whose load is queued for too long for it.
type turnedCall[K comparable, V any] struct {
	call[K, V]
	refusal error
}

// manyCall is a call that is on its flight, or waits for one to settle.
type manyCall[K comparable, V any] struct {
	call[K, V]
	flight   *inflight.Flight[K, outcome[V]]
	joined   bool
	settling bool // it is not on the flight, whose result is older
}

// loadMany joins the flights of the keys, and starts a load for those that
// have none, before anything is waited for. It returns the keys for which the
// caller must look at memory again; to those it refuses it answers itself.
func (g *Guard[K, V]) loadMany(ctx context.Context, rest []missing[K, V], results map[K]Result[V], counted map[K]bool) (calls []manyCall[K, V], again []K) {
	calls = make([]manyCall[K, V], 0, len(rest))
	ready := rest[:0]
	for _, m := range rest {
		c := call[K, V]{g: g, ctx: ctx, key: m.key}
		if err := c.refused(); err != nil {
			once(&g.count.rejected, counted[m.key])
			results[m.key] = Result[V]{Err: err}
		} else {
			ready = append(ready, m)
		}
	}
	var started []*inflight.Load[K, outcome[V]]
	var absent []K
	var absentScopes []any
	var refused []K
	var turned []turnedCall[K, V]
	now, d := g.now(), admit.Of(ctx, g.o.Limiter)
	scopes := g.scopesOf(ready)

	g.flights.Lock()
	add := func(f *inflight.Flight[K, outcome[V]], joined bool) {
		c := manyCall[K, V]{call: call[K, V]{g: g, ctx: ctx, key: f.Key}, flight: f, joined: joined}
		c.enterLocked()
		if joined {
			once(&g.count.joins, counted[f.Key])
		} else {
			once(&g.count.started, counted[f.Key])
		}
		calls = append(calls, c)
	}
	for i, m := range ready {
		f := g.flights.FindLocked(m.key)
		switch {
		case g.closed.Load():
			once(&g.count.rejected, counted[m.key])
			results[m.key] = Result[V]{Err: ErrClosed}
		case f != nil && f.Load().Settling():
			calls = append(calls, manyCall[K, V]{call: call[K, V]{g: g, ctx: ctx, key: m.key}, flight: f, settling: true})
		case f == nil && g.lookup(m.key) != m.entry:
			again = append(again, m.key)
		case f != nil:
			if err := g.joinLocked(f, d); err != nil {
				turned = append(turned, turnedCall[K, V]{call[K, V]{g: g, key: m.key, counted: counted[m.key]}, err})
				continue
			}
			add(f, true)
		case g.hungLocked():
			refused = append(refused, m.key)
		case g.src.LoadMany != nil:
			absent = append(absent, m.key)
			if scopes != nil {
				absentScopes = append(absentScopes, scopes[i])
			}
		default:
			f, _, _ := g.startLocked(ctx, m.key, nil, now, d) // Batch needs LoadMany: nothing is gathered here
			started = append(started, f.Load())
			add(f, false)
		}
	}
	for _, keys := range g.bulks(absent, absentScopes) {
		l := g.startManyLocked(ctx, keys, false, now, d)
		started = append(started, l)
		for _, f := range l.Flights() {
			add(f, false)
		}
	}
	g.flights.Unlock()

	for _, l := range started {
		go g.run(l, false)
	}
	for _, t := range turned {
		t.turnedAway(t.refusal)
		results[t.key] = g.failed(t.key, t.refusal)
	}
	for _, key := range refused {
		g.count.stuckRefusals.Add(1)
		once(&g.count.turnedAway, counted[key])
		g.event(EventRefused, key, ErrStuck)
		results[key] = g.failed(key, ErrStuck)
	}
	return calls, again
}

// startManyLocked puts a load for keys into the table, which nobody can add to.
// The table's lock must be held.
func (g *Guard[K, V]) startManyLocked(ctx context.Context, keys []K, background bool, now instant, d admit.Demand) *inflight.Load[K, outcome[V]] {
	l := g.flights.StartManyLocked(ctx, keys, background)
	l.Seq = g.seq
	l.Until, l.Urgency = d.Until, int8(d.Priority)
	for _, f := range l.Flights() {
		f.Began = now
	}
	if g.places != nil {
		l.Group = g.places.SendLocked(l)
	}
	return l
}
