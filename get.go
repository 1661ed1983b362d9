package weir

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/wait"
)

// Get returns the value of key: from memory while it is fresh, or stale where
// the Options allow it, and otherwise from a load, which it starts or joins.
//
// It returns the load's own error, or one of ErrNotFound, a *TimeoutError, a
// *PanicError, ErrGoexit, a *limit.Error, ErrStuck, ErrRecursive, ErrKey or
// ErrClosed. If ctx ends first it leaves at once and returns
// context.Cause(ctx).
func (g *Guard[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e, ok := g.store.GetIfPresent(key); ok {
		if now := g.clock(); e.quick(now) || g.hitsLate(ctx, key, e, now) {
			n := g.count.hits.add(now)
			if e.extra != nil {
				g.count.costHits.addN(now, e.cost())
			}
			if g.hot != nil {
				g.asked(key, n, now)
			}
			return g.clone(e.value), nil
		}
	}
	r := handOn(ctx, g, g.get(ctx, key))
	return r.Value, r.Err
}

// GetResult is [Guard.Get] with a Result, which describes how the value was
// obtained.
func (g *Guard[K, V]) GetResult(ctx context.Context, key K) Result[V] {
	return handOn(ctx, g, g.get(ctx, key))
}

// Peek returns the entry in memory that Get might serve for key, and whether there
// is one; after Close only a fresh one. It loads nothing, and does not count as a
// use of the entry.
func (g *Guard[K, V]) Peek(key K) (Result[V], bool) {
	held, ok := g.store.GetEntryQuietly(key)
	if !ok || held.Value.outdated() {
		return Result[V]{}, false
	}
	e, now := held.Value, g.clock()
	switch {
	case e.kind == kindFailure, g.closed.Load() && now >= e.freshUntil:
		return Result[V]{}, false
	case now < e.freshUntil, now < e.staleUntil:
		return g.answer(e, now), true
	case now < e.errorUntil:
		r := g.answer(e, now)
		r.State = StateStaleOnError
		return r, true
	}
	return Result[V]{}, false
}

// get answers from memory or with a load. It starts over when the entry that it
// looked at has changed meanwhile.
func (g *Guard[K, V]) get(ctx context.Context, key K) Result[V] {
	now := g.clock()
	if g.hot != nil {
		g.asked(key, rand.Uint64(), now)
	}
	e := g.lookup(key)
	g.refresh(ctx, e, now, key)
	if r, ok := g.fromMemory(ctx, key, e, now, false); ok {
		return r
	}
	return g.getByLoad(ctx, key, e, now)
}

// getByLoad is get after memory, which held e at now, could not answer. The call
// is created here because it is on the heap, and a hit must not allocate.
func (g *Guard[K, V]) getByLoad(ctx context.Context, key K, e *entry[V], now instant) Result[V] {
	call := call[K, V]{g: g, ctx: ctx, key: key}
	var r Result[V]
	for !call.load(e, now, &r) {
		now = g.clock()
		e = g.lookup(key)
		g.refresh(ctx, e, now, key)
		var ok bool
		if r, ok = g.fromMemory(ctx, key, e, now, call.counted); ok {
			break
		}
	}
	return r
}

// fromMemory answers from e, which may be nil. It returns false if a load is
// needed. counted means that the call has been counted, because it already
// waited for a load.
func (g *Guard[K, V]) fromMemory(ctx context.Context, key K, e *entry[V], now instant, counted bool) (Result[V], bool) {
	if e == nil {
		return Result[V]{}, false
	}
	fresh := now < e.freshUntil
	if g.closed.Load() && !fresh {
		return Result[V]{}, false
	}
	failing := e.failing(now)
	if e.extra != nil && !counted && (fresh || now < e.staleUntil) {
		g.count.costHits.addN(now, e.cost())
	}
	switch {
	case fresh && e.kind == kindNegative:
		once(&g.count.negativeHits, counted)
		return g.answer(e, now), true
	case fresh:
		if !counted {
			g.count.hits.add(now)
		}
		return g.answer(e, now), true
	case now < e.staleUntil:
		once(&g.count.staleHits, counted)
		return g.answer(e, now), true
	case failing != nil && e.servesOnError(now):
		once(&g.count.memoHits, counted)
		return g.staleOnError(ctx, key, e, now, failing.err), true
	case failing != nil:
		once(&g.count.memoHits, counted)
		return Result[V]{Err: failing.err, Source: FromMemory}, true
	}
	return Result[V]{}, false
}

// answer makes the Result of an entry from memory as of now.
func (g *Guard[K, V]) answer(e *entry[V], now instant) Result[V] {
	r := Result[V]{
		State: StateFresh, Source: FromMemory,
		Age:      time.Duration(max(now-e.loadedAt, 0)), // e may have been stored after now was read
		FreshFor: time.Duration(max(e.freshUntil-now, 0)),
		extra:    e.extra,
	}
	switch {
	case e.kind == kindNegative:
		r.State, r.Err = StateNegative, e.extra.err
		return r
	case now >= e.freshUntil:
		r.State = StateStale
	}
	r.Value = g.clone(e.value)
	return r
}

// staleOnError serves e instead of cause.
func (g *Guard[K, V]) staleOnError(ctx context.Context, key K, e *entry[V], now instant, cause error) Result[V] {
	g.count.staleOnError.Add(1)
	g.event(ctx, EventStaleOnError, key, cause)
	r := g.answer(e, now)
	r.State, r.Cause = StateStaleOnError, cause
	return r
}

// fail answers a call whose load did not succeed: it sets r to the entry that memory
// still has, or else to cause, and returns true. It looks at memory again, because after
// an Invalidate in the meantime nothing may be served.
func (c *call[K, V]) fail(cause error, r *Result[V]) bool {
	g := c.g
	e, now := g.lookup(c.key), g.clock()
	if g.closed.Load() || !c.servesOnError(e, now) {
		*r = Result[V]{Err: cause}
		return true
	}
	*r = c.standIn(e, now, cause)
	return true
}

// standIn answers with e, for which servesOnError is true, instead of cause.
func (c *call[K, V]) standIn(e *entry[V], now instant, cause error) Result[V] {
	if now >= e.freshUntil {
		return c.g.staleOnError(c.ctx, c.key, e, now, cause)
	}
	r := c.g.answer(e, now)
	if c.forced { // otherwise it was set meanwhile
		r.Cause = cause
	}
	return r
}

// A call is one caller's way through a load.
type call[K comparable, V any] struct {
	g   *Guard[K, V]
	ctx context.Context
	key K

	policy  Policy       // of this call; usually the zero Policy
	forced  bool         // entries in memory, and values that other instances have already loaded, are no answer
	counted bool         // in the Stats
	demand  admit.Demand // its deadline and priority for the limiter
	within  *lend.Call   // the load, or other call, from which it is made; nil: none
	joiner  joiner[K, V] // where it waits
	entered bool         // enterLocked has run
	seq     uint64       // invalidations by tag before it entered
	came    instant      // in a fleet: when it entered

	since instant   // when it began to wait
	start time.Time // the same, with an Observer only
}

// load starts or joins the load of the key, waits for it, and sets r, which is zero. It
// returns false if the caller must look at memory again instead. e is the entry that the
// caller saw there.
//
// A caller waits with all of this on its stack. On a new goroutine a Result in each
// function would make the stack grow once more, so they share one.
func (c *call[K, V]) load(e *entry[V], now instant, r *Result[V]) bool {
	g := c.g
	if err := c.refused(); err != nil {
		c.counts(&g.count.rejected)
		r.Err = err
		return true
	}
	scope := g.scope(c.ctx, c.key)
	defer c.leave()
	g.flights.Lock()
	c.enterLocked()
	if g.closed.Load() {
		g.flights.Unlock()
		c.counts(&g.count.rejected)
		r.Err = ErrClosed
		return true
	}
	f := g.flights.FindLocked(c.key)
	switch {
	case f == nil && !c.forced && g.lookup(c.key) != e:
		// A load has ended between the look at memory and the lock (F5).
		g.flights.Unlock()
		return false
	case f == nil && g.hungLocked():
		g.flights.Unlock()
		g.count.stuckRefusals.Add(1)
		c.counts(&g.count.turnedAway)
		g.event(c.ctx, EventRefused, c.key, ErrStuck)
		return c.fail(ErrStuck, r)
	case f == nil:
		f, first, err := g.startLocked(c.ctx, c.key, scope, now, c.demand)
		if err == nil {
			l := f.Load()
			l.Forced, l.Renews = l.Forced || c.forced, l.Renews || c.renews(e)
			c.attachLocked(f)
		}
		g.flights.Unlock()
		if err != nil {
			c.turnedAway(err)
			return c.fail(err, r)
		}
		c.counts(&g.count.started)
		if first {
			go f.Load().Run()
		}
		return c.await(false, now, r)
	case f.Load().Ending():
		g.flights.Unlock()
		return c.passSoft(f, r)
	}
	err := c.joinLocked(f)
	g.flights.Unlock()
	if err != nil {
		c.turnedAway(err)
		return c.fail(err, r)
	}
	c.counts(&g.count.joins)
	return c.await(true, now, r)
}

// counts adds the call to n, unless it has been counted.
func (c *call[K, V]) counts(n *atomic.Uint64) {
	once(n, c.counted)
	c.counted = true
}

// refused returns why the call may not wait for a load; nil if it may.
func (c *call[K, V]) refused() error {
	if err := checkKey(c.key); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return wait.Cause(c.ctx)
	}
	c.within = lend.From(c.ctx)
	if c.g.flights.Recursive(c.ctx, c.within, c.key) {
		return ErrRecursive
	}
	c.demand = admit.Of(c.ctx, c.g.o.Limiter)
	return nil
}

// enterLocked notes when the call came, by the count of invalidations. The
// table's lock must be held.
func (c *call[K, V]) enterLocked() {
	if !c.entered {
		c.entered, c.seq = true, c.g.seq
		if c.g.fleet != nil && c.came == 0 {
			c.came = c.g.clock()
		}
	}
}

// startLocked puts a load for key into the table, or adds key to one that is
// still gathering. It reports whether the caller must run the load, and refuses
// as gatherLocked does. The table's lock must be held.
func (g *Guard[K, V]) startLocked(ctx context.Context, key K, scope any, now instant, d admit.Demand) (f *inflight.Flight[K, outcome[V]], first bool, err error) {
	if g.batches != nil {
		return g.gatherLocked(ctx, key, scope, now, d, false)
	}
	l := g.startOneLocked(ctx, key, false)
	f = l.Flights()[0]
	f.Began = now
	return f, true, nil
}

// pass waits out the moment in which a load has returned and is not yet final:
// its result is older than this call, but may be in memory soon.
func (c *call[K, V]) pass(f *inflight.Flight[K, outcome[V]]) {
	select {
	case <-f.Load().Done():
	case <-c.ctx.Done():
	}
}

// await waits, from now on, for the flight that the call is on, and sets r. It returns
// false if the answer was overtaken before the call began.
func (c *call[K, V]) await(joined bool, now instant, r *Result[V]) bool {
	c.waitStart(now)
	return c.awaitOn(joined, r)
}

// awaitOn is await for a call that is already waiting.
func (c *call[K, V]) awaitOn(joined bool, r *Result[V]) bool {
	ok, err := c.wait(r)
	c.waitEnd(joined, err)
	r.Joined = joined
	return ok
}

// wait is awaitOn without the measuring; err is the error with which the wait
// ended.
func (c *call[K, V]) wait(r *Result[V]) (ok bool, err error) {
	f := c.joiner.flight
	if c.waitSoft(r) {
		return true, r.Cause
	}
	if err := c.waitForFlight(); err != nil {
		r.Err = err
		return true, err
	}
	if f.Err != nil {
		return c.fail(f.Err, r), f.Err
	}
	c.g.loaded(f, r)
	return !c.tooLate(f), nil
}

// tooLate reports whether the answer of f was overtaken before this call began,
// or may have been: since the load began, only the last invalidation of each
// tag is known, so any invalidation before the call counts.
func (c *call[K, V]) tooLate(f *inflight.Flight[K, outcome[V]]) bool {
	return f.Value.overtaken && c.seq > f.Load().Seq || f.Value.late > 0 && c.came >= f.Value.late
}

// loaded sets r to the outcome of a load.
func (g *Guard[K, V]) loaded(f *inflight.Flight[K, outcome[V]], r *Result[V]) {
	e := f.Value.entry
	at := e.loadedAt
	if f.Value.fromTier {
		at = f.Value.at // a GetMany may have waited for another key since
	}
	*r = g.answer(e, at)
	r.Source = FromLoad
	switch {
	case f.Value.fromTier:
		r.Source = FromTier
		if r.State == StateStale && at >= e.staleUntil { // its callers waited for it, and it is not kept
			r.State = StateLoaded
		}
	case r.State != StateNegative:
		r.State = StateLoaded
	}
	if r.Superseded = f.SupersededLocked() || f.Value.overtaken || f.Value.late > 0; r.Superseded {
		r.FreshFor = 0
	}
}

// waitStart and waitEnd measure a call's wait, and report it.
func (c *call[K, V]) waitStart(now instant) {
	c.since = now
	if c.g.o.Observer != nil {
		c.start = time.Now()
	}
}

func (c *call[K, V]) waitEnd(joined bool, err error) {
	g := c.g
	g.waits.Record(time.Duration(g.clock() - c.since))
	if g.o.Observer == nil {
		return
	}
	g.flights.Lock()
	load := c.joiner.flight.Load().Observed
	g.flights.Unlock()
	g.observe(func(o Observer) {
		o.Waited(c.ctx, Wait{Guard: g.o.Name, Start: c.start, Duration: time.Since(c.start), Joined: joined, Err: err, Load: load})
	})
}
