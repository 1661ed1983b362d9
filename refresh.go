package weir

import (
	"context"
	"math/rand/v2"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// Refresh loads key whatever memory holds, waits for the value and returns it.
// A load that is running already is joined. Unlike Get it answers a failure
// with the error, not with a stale value; what memory holds stays there.
func (g *Guard[K, V]) Refresh(ctx context.Context, key K) Result[V] {
	c := call[K, V]{g: g, ctx: ctx, key: key}
	if g.hot != nil {
		g.asked(key, rand.Uint64(), g.now())
	}
	for {
		f, joined, err := c.join()
		if err == ErrStuck {
			g.event(EventRefused, key, err)
		}
		if err != nil {
			return Result[V]{Err: err}
		}
		if f == nil {
			continue
		}
		c.waitStart()
		err = f.Wait(ctx, g.o.AbandonGrace)
		if err == nil {
			err = f.Err
		}
		c.waitEnd(f, joined, err)
		if err != nil {
			return Result[V]{Err: err, Joined: joined}
		}
		if !c.tooLate(f) {
			r := g.loaded(f)
			r.Joined = joined
			return r
		}
	}
}

// join starts or joins the load of the key without a look at memory. It
// returns no flight if the caller must try again.
func (c *call[K, V]) join() (f *inflight.Flight[K, outcome[V]], joined bool, err error) {
	g := c.g
	if err := c.refused(); err != nil {
		c.counts(&g.count.rejected)
		return nil, false, err
	}
	scope := g.scope(c.key)
	g.flights.Lock()
	c.enterLocked()
	f = g.flights.FindLocked(c.key)
	switch {
	case g.closed.Load():
		c.counts(&g.count.rejected)
		err = ErrClosed
	case f == nil && g.hungLocked():
		g.count.stuckRefusals.Add(1)
		c.counts(&g.count.turnedAway)
		err = ErrStuck
	case f == nil:
		f, first, err := g.startLocked(c.ctx, c.key, scope, g.now(), c.demand)
		if err == nil {
			f.Load().Forced = true
		}
		g.flights.Unlock()
		if err != nil {
			c.turnedAway(err)
			return nil, false, err
		}
		c.counts(&g.count.started)
		if first {
			go g.run(f.Load(), false)
		}
		return f, false, nil
	case f.Load().Settling():
		g.flights.Unlock()
		c.pass(f)
		return nil, false, nil
	default:
		if err = g.joinLocked(f, c.demand); err == nil {
			c.counts(&g.count.joins)
			joined = true
			break
		}
		g.flights.Unlock()
		c.turnedAway(err)
		return nil, false, err
	}
	g.flights.Unlock()
	return f, joined, err
}

// refresh starts a background load of key if that is due for its entry, which
// may be nil, and there is none yet. It returns at once.
func (g *Guard[K, V]) refresh(ctx context.Context, e *entry[V], now instant, key K) {
	if g.elect(e, now) {
		g.refreshMany(ctx, []K{key}, []*entry[V]{e}, now)
	}
}

// elect reports whether a refresh of e, which may be nil, is due and the caller
// is the one to start it. However many ask at once, one is elected. It is asked
// once for a request: with RefreshBeta it draws.
func (g *Guard[K, V]) elect(e *entry[V], now instant) bool {
	if e == nil || e.kind != kindValue || now >= e.staleUntil {
		return false
	}
	at := e.refreshFrom.Load()
	return now >= at && e.draws(g.o.RefreshBeta, now) && e.refreshFrom.CompareAndSwap(at, farAhead)
}

// refreshMany starts background loads of keys, whose entries the caller was
// elected for: one for all of them where the Source can do that.
func (g *Guard[K, V]) refreshMany(ctx context.Context, keys []K, entries []*entry[V], now instant) {
	var started []*inflight.Load[K, outcome[V]]
	skipped := 0
	scopes := g.scopes(keys)
	g.flights.Lock()
	absent := keys[:0:0]
	for i, key := range keys {
		f := g.flights.FindLocked(key)
		switch {
		case f != nil:
			// A load is in the air already and will do. The Guard joins it:
			// if its callers left and it were abandoned, nobody would ever
			// be elected to refresh this entry again.
			f.Load().PinLocked()
		case g.closed.Load():
		case g.lookup(key) != entries[i]:
			// A load has ended between the look at memory and the lock (F5).
		case !g.mayRefreshLocked(scopes, i):
			entries[i].refreshFrom.Store(now) // for the next one to try
			skipped++
		case g.places != nil:
			f, first, err := g.gatherLocked(ctx, key, scopes[i], now, admit.Demand{Priority: limit.Background}, true)
			if err == nil && first { // a refresh has no deadline to be refused for
				started = append(started, f.Load())
				g.refreshing++
			}
		case len(keys) > 1 && g.src.LoadMany != nil:
			absent = append(absent, key)
		default:
			l := g.flights.StartLocked(ctx, key, true)
			l.Seq, l.Urgency = g.seq, int8(limit.Background)
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
	g.flights.Unlock()
	for _, l := range started {
		go g.run(l, true)
	}
	if skipped > 0 {
		g.count.refreshesSkipped.Add(uint64(skipped))
		g.event(EventRefreshSkipped, keys[0], nil)
	}
}
