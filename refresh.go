package weir

import (
	"context"
	"runtime/debug"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// Refresh loads key whatever memory holds, waits for the value and returns it.
// A load that is running already is joined. Unlike Get it answers a failure
// with the error, not with a stale value; what memory holds stays there.
func (g *Guard[K, V]) Refresh(ctx context.Context, key K) (V, error) {
	r := g.RefreshResult(ctx, key)
	return r.Value, r.Err
}

// RefreshResult is [Guard.Refresh] with a result that tells how the answer came
// about.
func (g *Guard[K, V]) RefreshResult(ctx context.Context, key K) Result[V] {
	return handOn(ctx, g, g.getWith(ctx, key, refreshing))
}

// refreshing is the policy of Refresh: a new load or its error.
var refreshing = Policy{Bypass: true, NoStale: true}

// RefreshMany is [Guard.RefreshResult] for several keys: it joins the loads that
// are running, and loads the rest as [Guard.GetMany] loads what is missing. The
// map has one result for each distinct key.
func (g *Guard[K, V]) RefreshMany(ctx context.Context, keys []K) map[K]Result[V] {
	m := g.many(ctx, keys, refreshing)
	defer m.leave()
	return m.all()
}

// refresh starts a background load of key if that is due for its entry, which
// may be nil, and there is none yet. It returns at once.
func (g *Guard[K, V]) refresh(ctx context.Context, e *entry[V], now instant, key K) {
	if g.elect(e, now) {
		var due elections[K, V]
		defer due.takeBack()
		due.add(key, e, now)
		g.refreshMany(ctx, &due, now)
	}
}

// refreshMany starts background loads of the keys that the caller was elected
// for: one for all of them where the Source can do that. Every election ends
// here, with a load in flight or by being taken back; if BatchScope
// exits, the caller's deferred takeBack does it.
func (g *Guard[K, V]) refreshMany(ctx context.Context, due *elections[K, V], now instant) {
	if len(due.of) == 0 {
		return
	}
	keys := due.keys()
	scopes, fault := g.scopesToRefresh(keys)
	var started []*inflight.Load[K, outcome[V]]
	skipped := 0
	g.flights.Lock()
	absent := keys[:0:0]
	for i, key := range keys {
		f := g.flights.FindLocked(key)
		switch {
		case f != nil:
			// A load is in flight already and will do. The Guard joins it:
			// if its callers left and it were abandoned, nobody would ever
			// be elected to refresh this entry again.
			f.Load().PinLocked()
		case g.closed.Load(), g.lookup(key) != due.of[i].entry:
			// Or a load has ended between the look at memory and the lock (F5).
			due.of[i].takeBack()
		case fault != nil, !g.mayRefreshLocked(scopes, i):
			due.of[i].takeBack() // for the next one to try
			skipped++
		case g.batches != nil:
			f, first, err := g.gatherLocked(ctx, key, scopes[i], now, admit.Demand{Priority: limit.Background}, true)
			if err != nil { // which a refresh has no deadline for
				due.of[i].takeBack()
				skipped++
			} else if first {
				started = append(started, f.Load())
				g.refreshing++
			}
		case len(keys) > 1 && g.src.bulk():
			absent = append(absent, key)
		default:
			l := g.flights.StartLocked(ctx, key, true)
			l.Seq = g.seq
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
		go g.run(l, true)
	}
	if skipped > 0 {
		g.count.refreshesSkipped.Add(uint64(skipped))
		g.event(ctx, EventRefreshSkipped, keys[0], fault)
	}
}

// scopesToRefresh is scopes for keys that are to be refreshed in the background.
// The caller has its value: a BatchScope that panics is no concern of its.
func (g *Guard[K, V]) scopesToRefresh(keys []K) (scopes []any, fault error) {
	defer func() {
		if r := recover(); r != nil {
			g.count.panics.Add(1)
			fault = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return g.scopes(keys), nil
}
