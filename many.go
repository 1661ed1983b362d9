package weir

import (
	"context"
	"math/rand/v2"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
)

// GetMany is [Guard.GetResult] for several keys: it answers from memory what
// it can, joins the loads that are running for others, and loads the rest in
// one call of Source.LoadMany or LoadEntries, under one permit; with
// Options.Batch in one for each scope and MaxSize keys. Without either it starts
// a load for each. The map has one result for each distinct key.
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
	if inflight.Within(ctx) {
		for key, r := range results {
			results[key] = handOn(ctx, g, r)
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
	calls := make([]manyCall[K, V], 0, len(missing))
	defer func() {
		for i := range calls {
			calls[i].leave()
		}
	}()
	again := g.loadMany(ctx, missing, results, counted, &calls)
	for i := range calls { // all of them wait from now on, though one after another is looked after
		calls[i].waitStart()
	}
	for i := range calls {
		if c := &calls[i]; c.settling != nil {
			c.counted = counted[c.key]
			if r, ok := c.passSoft(c.settling); ok {
				results[c.key] = r
				continue
			}
		} else if r, ok := c.awaitOn(c.joined); ok {
			results[c.key] = r
			continue
		} else {
			counted[c.key] = true
		}
		again = append(again, calls[i].key)
	}
	return again
}

// manyFromMemory answers what memory can, starts one refresh for all that are
// due, and returns the other keys.
func (g *Guard[K, V]) manyFromMemory(ctx context.Context, keys []K, results map[K]Result[V], counted map[K]bool) []missing[K, V] {
	var rest []missing[K, V]
	var due elections[K, V]
	defer due.takeBack()
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
		if g.elect(e, now) {
			due.add(key, e, now)
		}
		if r, ok := g.fromMemory(key, e, now, counted[key]); ok {
			results[key] = r
		} else {
			results[key] = Result[V]{} // seen; loadMany fills it
			rest = append(rest, missing[K, V]{key, e})
		}
	}
	g.refreshMany(ctx, &due, now)
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
	joined   bool
	settling *inflight.Flight[K, outcome[V]] // instead of a seat: its result is older than the call
}

// loadMany joins the flights of the keys, and starts a load for those that
// have none, before anything is waited for. It returns the keys for which the
// caller must look at memory again; to those it refuses it answers itself. The
// seats on the flights are in calls, also if a hook does not return.
func (g *Guard[K, V]) loadMany(ctx context.Context, rest []missing[K, V], results map[K]Result[V], counted map[K]bool, calls *[]manyCall[K, V]) (again []K) {
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
	now, d, within := g.now(), admit.Of(ctx, g.o.Limiter), lend.From(ctx)
	scopes := g.scopesOf(ready)

	g.flights.Lock()
	on := func(key K, joined bool) *manyCall[K, V] { // there is room: a call stays where it is
		*calls = append(*calls, manyCall[K, V]{call: call[K, V]{g: g, ctx: ctx, key: key, demand: d, within: within}, joined: joined})
		return &(*calls)[len(*calls)-1]
	}
	starts := func(f *inflight.Flight[K, outcome[V]]) {
		c := on(f.Key, false)
		c.enterLocked()
		c.sitLocked(f)
		once(&g.count.started, counted[f.Key])
	}
	for i, m := range ready {
		f := g.flights.FindLocked(m.key)
		switch {
		case g.closed.Load():
			once(&g.count.rejected, counted[m.key])
			results[m.key] = Result[V]{Err: ErrClosed}
		case f != nil && f.Load().Settling():
			on(m.key, true).settling = f
		case f == nil && g.lookup(m.key) != m.entry:
			again = append(again, m.key)
		case f != nil:
			c := on(m.key, true)
			if err := c.joinLocked(f); err != nil {
				*calls = (*calls)[:len(*calls)-1]
				turned = append(turned, turnedCall[K, V]{call[K, V]{g: g, key: m.key, counted: counted[m.key]}, err})
				continue
			}
			c.enterLocked()
			once(&g.count.joins, counted[m.key])
		case g.hungLocked():
			refused = append(refused, m.key)
		case g.src.bulk():
			absent = append(absent, m.key)
			if scopes != nil {
				absentScopes = append(absentScopes, scopes[i])
			}
		default:
			f, _, _ := g.startLocked(ctx, m.key, nil, now, d) // Batch needs a bulk load: nothing is gathered here
			started = append(started, f.Load())
			starts(f)
		}
	}
	for _, keys := range g.bulks(absent, absentScopes) {
		l := g.startManyLocked(ctx, keys, false, now, d)
		started = append(started, l)
		for _, f := range l.Flights() {
			starts(f)
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
	return again
}

// startManyLocked puts a load for keys into the table, which nobody can add to.
// The table's lock must be held.
func (g *Guard[K, V]) startManyLocked(ctx context.Context, keys []K, background bool, now instant, d admit.Demand) *inflight.Load[K, outcome[V]] {
	l := g.flights.StartManyLocked(ctx, keys, background)
	l.Seq = g.seq
	for _, f := range l.Flights() {
		f.Began = now
	}
	if g.places != nil {
		l.Group = g.places.SendLocked(l)
	}
	return l
}
