package weir

import (
	"context"
	"math/rand/v2"
	"runtime/debug"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// Refresh loads key whatever memory holds, waits for the value and returns it.
// A load that is running already is joined. Unlike Get it answers a failure
// with the error, not with a stale value; what memory holds stays there.
func (g *Guard[K, V]) Refresh(ctx context.Context, key K) Result[V] {
	c := call[K, V]{g: g, ctx: ctx, key: key}
	defer c.leave()
	if g.hot != nil {
		g.asked(key, rand.Uint64(), g.now())
	}
	for {
		joined, ok, err := c.join()
		if err == ErrStuck {
			g.event(EventRefused, key, err)
		}
		if err != nil {
			return Result[V]{Err: err}
		}
		if !ok {
			continue
		}
		f := c.seat.flight
		c.waitStart()
		err = c.settle()
		if err == nil {
			err = f.Err
		}
		c.waitEnd(joined, err)
		if err != nil {
			return Result[V]{Err: err, Joined: joined}
		}
		if !c.tooLate(f) {
			r := g.loaded(f)
			r.Joined = joined
			return handOn(ctx, g, r)
		}
	}
}

// join starts or joins the load of the key without a look at memory. It
// reports ok false, without an error, if the caller must try again.
func (c *call[K, V]) join() (joined, ok bool, err error) {
	g := c.g
	if err := c.refused(); err != nil {
		c.counts(&g.count.rejected)
		return false, false, err
	}
	scope := g.scope(c.key)
	g.flights.Lock()
	c.enterLocked()
	f := g.flights.FindLocked(c.key)
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
			c.sitLocked(f)
		}
		g.flights.Unlock()
		if err != nil {
			c.turnedAway(err)
			return false, false, err
		}
		c.counts(&g.count.started)
		if first {
			go g.run(f.Load(), false)
		}
		return false, true, nil
	case f.Load().Settling():
		g.flights.Unlock()
		c.pass(f)
		return false, false, nil
	default:
		if err = c.joinLocked(f); err == nil {
			c.counts(&g.count.joins)
			break
		}
		g.flights.Unlock()
		c.turnedAway(err)
		return false, false, err
	}
	g.flights.Unlock()
	return true, err == nil, err
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
			// A load is in the air already and will do. The Guard joins it:
			// if its callers left and it were abandoned, nobody would ever
			// be elected to refresh this entry again.
			f.Load().PinLocked()
		case g.closed.Load(), g.lookup(key) != due.of[i].entry:
			// Or a load has ended between the look at memory and the lock (F5).
			due.of[i].takeBack()
		case fault != nil, !g.mayRefreshLocked(scopes, i):
			due.of[i].takeBack() // for the next one to try
			skipped++
		case g.places != nil:
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
		g.event(EventRefreshSkipped, keys[0], fault)
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
