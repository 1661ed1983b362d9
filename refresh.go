package weir

import (
	"context"
	"runtime/debug"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// Refresh loads key even if memory has a fresh value, waits for the new value
// and returns it. It joins a running load. Unlike Get it returns the error of a
// failed load, not a stale value; the entry in memory stays.
func (g *Guard[K, V]) Refresh(ctx context.Context, key K) (V, error) {
	r := g.RefreshResult(ctx, key)
	return r.Value, r.Err
}

// RefreshResult is [Guard.Refresh] with a Result, which describes how the value
// was obtained.
func (g *Guard[K, V]) RefreshResult(ctx context.Context, key K) Result[V] {
	return handOn(ctx, g, g.getWith(ctx, key, refreshing))
}

// refreshing is the policy of Refresh: a new load or its error.
var refreshing = Policy{Bypass: true, NoStale: true}

// RefreshMany is [Guard.RefreshResult] for several keys: it joins running loads,
// and loads the other keys as [Guard.GetMany] loads missing ones. The map has
// one result for each distinct key.
func (g *Guard[K, V]) RefreshMany(ctx context.Context, keys []K) map[K]Result[V] {
	m := g.many(ctx, keys, refreshing)
	defer m.leave()
	return m.all()
}

// refresh starts a background load of key if it is due for e, which may be nil,
// and none is running. It returns at once.
func (g *Guard[K, V]) refresh(ctx context.Context, e *entry[V], now instant, key K) {
	if g.elect(e, now) {
		var due elections[K, V]
		defer due.takeBack()
		due.add(key, e, now)
		g.refreshMany(ctx, &due, now)
	}
}

// refreshMany starts background loads of the keys that the caller was elected
// for: one for all of them if the Source has a bulk function. Every election
// ends here, with a load in flight or by being taken back; if BatchScope exits,
// the caller's deferred takeBack takes it back.
func (g *Guard[K, V]) refreshMany(ctx context.Context, due *elections[K, V], now instant) {
	if len(due.of) == 0 {
		return
	}
	keys := due.keys()
	scopes, fault := g.scopesToRefresh(ctx, keys)
	var started []*inflight.Load[K, outcome[V]]
	skipped := 0
	g.flights.Lock()
	absent := keys[:0:0]
	for i, key := range keys {
		f := g.flights.FindLocked(key)
		switch {
		case f != nil:
			// A load is already in flight and serves as the refresh. The Guard
			// joins it: if its callers left and it were abandoned, no caller
			// would be elected to refresh this entry again.
			f.Load().PinLocked()
		case g.closed.Load(), g.lookup(key) != due.of[i].entry:
			// Or a load has ended between the look at memory and the lock (F5).
			due.of[i].takeBack()
		case fault != nil, !g.mayRefreshLocked(scopes, i):
			due.of[i].takeBack() // so that the next caller tries
			skipped++
		case g.batches != nil:
			f, first, err := g.gatherLocked(ctx, key, scopes[i], now, admit.Demand{Priority: limit.Background}, true)
			if err != nil { // cannot happen: a refresh has no deadline
				due.of[i].takeBack()
				skipped++
			} else if first {
				started = append(started, f.Load())
				g.refreshing++
			}
		case len(keys) > 1 && g.src.bulk():
			absent = append(absent, key)
		default:
			l := g.startOneLocked(ctx, key, true)
			l.Flights()[0].Began = now
			started = append(started, l)
			g.refreshing++
		}
	}
	if len(absent) > 0 {
		l := g.startManyLocked(ctx, absent, true, now, admit.Demand{Priority: limit.Background})
		started = append(started, l)
		g.refreshing++
	}
	due.of = nil
	g.flights.Unlock()
	for _, l := range started {
		go l.Run()
	}
	if skipped > 0 {
		g.count.refreshesSkipped.Add(uint64(skipped))
		g.event(ctx, EventRefreshSkipped, keys[0], fault)
	}
}

// scopesToRefresh is scopes for keys that are to be refreshed in the background.
// The caller has its value, so a panic of BatchScope does not reach it.
func (g *Guard[K, V]) scopesToRefresh(ctx context.Context, keys []K) (scopes []any, fault error) {
	defer func() {
		if r := recover(); r != nil {
			g.count.panics.Add(1)
			fault = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return g.scopes(ctx, keys), nil
}
