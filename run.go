package weir

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// A run is one load on its way through its goroutine:
//
//  1. gather, where misses are batched: wait for others, and for a place.
//  2. share, in a fleet: get the answer from the fleet, or the right to load.
//  3. admit: wait for the limiter's permit.
//  4. depart, where misses are batched: no more keys are added. In a fleet this
//     comes before share.
//  5. arm: start the hard timeout.
//  6. call: run the user's function, and make entries of its results.
//  7. end, whatever happened above: give back the permit, report to the fleet,
//     commit, wake.
type run[K comparable, V any] struct {
	g       *Guard[K, V]
	l       *inflight.Load[K, outcome[V]]
	started bool // see step

	permit   limit.Permit
	admitted atomic.Bool // permit is set; not a mutex: a load is given up on any goroutine
	costs    []int       // of each flight: the estimate, then what it has cost; nil if cost is not counted
	refused  bool        // the limiter's refusal has ended the load
	unwanted bool        // it was a refresh without a waiting caller
	timer    *time.Timer
	ctx      context.Context // the context of the function; nil if it was not called
	done     bool            // nothing panicked
	repeats  bool            // a key may be in l twice

	err   error       // of the whole load; then there are no answers
	class Class       // of err
	one   answer[V]   // of a load of one key
	many  []answer[V] // of a load of several
	began instant     // when the function was called
	ended instant     // when it returned
	stuck bool        // it outlived the hard timeout

	lookups  []fleetLookup[V] // in a fleet: one per flight
	tagSeq   uint64           // in a fleet: the count of its invalidations by tag that was known when the function was called
	cools    time.Duration    // for how long the fleet does not load the key, from ended on; with err only
	next     *run[K, V]       // the load that takes over the lease
	handOver uint64           // fence of the lease that goes to a load in the background; 0 for none

	queued time.Duration // with an Observer only, as start
	start  time.Time
}

// An answer is the function's result for one key.
type answer[V any] struct {
	entry *entry[V] // nil if err is set
	tags  []string
	keep  bool // it goes into memory
	heavy bool // kept out of memory by its weight

	noStore  bool // nor is it shared
	fromTier bool // another instance has loaded it

	err   error
	class Class // of err
}

// A task is a load of one key and its run, in one allocation.
type task[K comparable, V any] struct {
	run  run[K, V]
	load inflight.Single[K, outcome[V]]
}

// startOneLocked puts a load for key into the table, with the caller as its first joiner,
// or in the background. The table's lock must be held.
func (g *Guard[K, V]) startOneLocked(ctx context.Context, key K, background bool) *inflight.Load[K, outcome[V]] {
	t := new(task[K, V])
	l := g.flights.StartInLocked(&t.load, ctx, key, background)
	l.Seq = g.seq
	t.run.attach(g, l)
	return l
}

// newRun makes the run of l.
func (g *Guard[K, V]) newRun(l *inflight.Load[K, outcome[V]]) *run[K, V] {
	r := new(run[K, V])
	r.attach(g, l)
	return r
}

func (r *run[K, V]) attach(g *Guard[K, V], l *inflight.Load[K, outcome[V]]) {
	r.g, r.l = g, l
	l.Run, l.Abandoned = r.step, r
}

// Abandon tells the limiter that the load was given up.
func (r *run[K, V]) Abandon() {
	if r.admitted.Load() {
		r.permit.Abandon()
	}
}

// step runs the load on its goroutine. When it is called again, by the timer that arm has
// started, it is the hard timeout: two functions would be one allocation more.
func (r *run[K, V]) step() {
	if r.started {
		r.g.expire(r.l)
		return
	}
	r.started = true
	growStack(false)
	r.run()
}

func (r *run[K, V]) run() {
	defer r.end()
	if !r.ready() {
		r.done = true
		return
	}
	r.arm()
	r.prepare()
	defer r.call() // also when the Observer exits
	r.observeStart()
}

// ready takes the steps before the function, and reports whether to call it.
func (r *run[K, V]) ready() bool {
	if r.g.fleet == nil {
		return r.gather() && r.admit() && r.depart()
	}
	return r.gather() && r.depart() && r.at(stageAsking) && r.share() && r.at(stageQueued) && r.awaitBatch() && r.admit()
}

// at records the stage of the load, and returns true.
func (r *run[K, V]) at(stage int32) bool {
	r.l.Stage.Store(stage)
	return true
}

// arm starts the hard timeout.
func (r *run[K, V]) arm() {
	g, l := r.g, r.l
	if d := g.o.LoadTimeout; d > 0 {
		l.SetDeadline(time.Now().Add(d))
		r.timer = time.AfterFunc(d, l.Run)
	}
}

// prepare makes the function's context.
func (r *run[K, V]) prepare() {
	g, l := r.g, r.l
	r.settleEstimate()
	l.SetValues(g.loadContext(l.Values()))
	if g.fleet != nil {
		r.tagSeq = g.fleet.TagSeq()
		if l.Fence > 0 {
			l.SetValues(fleet.WithFence(l.Values(), l.Fence))
		}
	}
	r.ctx = l
	g.count.loads.Add(1)
	if r.l.Background() {
		g.count.refreshes.Add(1)
	}
	r.at(stageRunning)
}

// call runs the user's function, and the hooks that its result goes through.
// They may panic.
func (r *run[K, V]) call() {
	g, l := r.g, r.l
	r.began = g.clock()
	f := l.Flights()[0]
	switch {
	case len(l.Flights()) > 1 || !g.src.single():
		r.callMany()
	case g.src.LoadEntry != nil:
		held := r.held(0)
		in, err := g.src.LoadEntry(r.ctx, f.Key, r.previous(held))
		r.returned()
		r.costing(0, in.Cost)
		r.one = r.answer(f.Key, in, held, err)
	default:
		v, err := g.src.Load(r.ctx, f.Key)
		r.returned()
		r.one = r.answer(f.Key, Entry[V]{Value: v}, nil, err)
	}
	r.done = true
}

// of returns the answer for the ith flight.
func (r *run[K, V]) of(i int) *answer[V] {
	if r.many != nil {
		return &r.many[i]
	}
	return &r.one
}

// returned records that the user's function has returned.
func (r *run[K, V]) returned() {
	r.l.Return()
	r.ended = r.g.clock()
}

// took returns how long the function ran; 0 if it is not needed.
func (r *run[K, V]) took() loadTime {
	if r.g.o.RefreshBeta > 0 {
		return newLoadTime(r.ended - r.began)
	}
	return 0
}

// answer makes the answer to commit from in and err.
func (r *run[K, V]) answer(key K, in Entry[V], prev *entry[V], err error) answer[V] {
	g := r.g
	if err == nil && in.NotModified {
		if p := prev.previous(r.ended); p.OK {
			g.count.notModified.Add(1)
			in = prev.renewed(in)
		} else {
			err = ErrNotModified
		}
	}
	if err != nil {
		class := classify(g.o.Classify, err)
		if class != ClassNotFound {
			return answer[V]{err: err, class: class}
		}
		ttl := choose(in.TTL, g.o.NegativeTTL)
		e := newNegative[V](&g.o, ttl, asNotFound(err), r.ended, r.took())
		e.weight = max(in.Weight, 1)
		if in.NoStore {
			e.freshUntil = e.loadedAt
		}
		heavy := g.o.MaxWeight > 0 && uint64(e.weight) > g.o.MaxWeight
		return answer[V]{entry: e, tags: in.Tags, keep: ttl > 0 && !in.NoStore && !heavy, heavy: heavy, noStore: in.NoStore}
	}
	e, keep, heavy := g.makeEntry(key, in, r.ended, r.took())
	return answer[V]{entry: e, tags: in.Tags, keep: keep, heavy: heavy, noStore: in.NoStore}
}

// makeEntry makes an entry of in, which took took to load. keep reports whether it goes into
// memory, and heavy whether its weight prevents that. The tags are set when it is stored.
func (g *Guard[K, V]) makeEntry(key K, in Entry[V], now instant, took loadTime) (e *entry[V], keep, heavy bool) {
	if in.Weight == 0 && g.src.Weigh != nil && g.o.MaxWeight > 0 {
		in.Weight = g.weigh(key, in.Value)
	}
	e = newEntry(&g.o, in, now, took)
	if in.Version != "" {
		e.extra = &extra{version: in.Version}
	}
	if in.NoStore {
		e.freshUntil = now
	}
	heavy = g.o.MaxWeight > 0 && uint64(e.weight) > g.o.MaxWeight
	// A value that is never fresh is kept if the load names a stale window for
	// it, to be served stale and revalidated by its version.
	stale := in.TTL < 0 && (in.StaleWhileRevalidate > 0 || in.StaleIfError > 0)
	keep = !in.NoStore && !heavy && (e.freshUntil > now || stale)
	return e, keep, heavy
}

// end finishes the load, on its goroutine, also while that panics or exits. The
// steps are deferred in reverse order: if a hook exits in one of them, the
// others still run.
func (r *run[K, V]) end() {
	g, l := r.g, r.l
	if !r.done {
		r.err, r.class = fault(recover()), ClassTransient
		g.count.panics.Add(1)
		r.ended = g.clock()
	}
	counts := false
	defer func() { r.tell(counts) }()
	defer func() { g.trim(len(l.Flights())) }()
	defer r.closeLookups()
	defer r.goOn()
	defer func() { counts = r.finish() }()
	defer r.settleLeases(0)
	defer r.release()
	l.Return()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.measure()
}

// release gives the permit back, and passes on a pause that the source has stated.
func (r *run[K, V]) release() {
	if cause := context.Cause(r.l); cause == ErrAbandoned { //nolint:errorlint // it is never wrapped; perhaps before there was a permit
		r.permit.Abandon()
	}
	defer r.g.release(r.permit, r.permitOutcome())
	r.settleCost()
	if d := r.pause(); d > 0 && r.ctx != nil { // before the permit is free for another call
		limit.Pause(r.g.o.Limiter, d)
	}
}

// finish makes the result final and wakes the callers that wait, unless the load was
// given up before. It returns false if it was.
func (r *run[K, V]) finish() bool {
	counts := r.commit()
	r.heat()
	if counts {
		r.l.End(nil)
	}
	return counts
}

// permitOutcome returns the outcome of the load for limiters that adapt to it.
func (r *run[K, V]) permitOutcome() limit.Outcome {
	err, class := r.err, r.class
	if err == nil {
		class, err = r.worst()
	}
	switch given := r.l.Err(); {
	case r.ctx == nil:
		return limit.Unused
	case given == context.DeadlineExceeded, err != nil && class == ClassOverload:
		return limit.Dropped
	case given != nil, err != nil && class != ClassPermanent:
		return limit.Ignored
	}
	return limit.Success
}

// worst returns the error of the load's keys that matters most to a limiter: an
// overload first, a permanent error last.
func (r *run[K, V]) worst() (Class, error) {
	err, class := r.one.err, r.one.class
	for i := range r.many {
		a := &r.many[i]
		if a.err != nil && (err == nil || a.class == ClassOverload || class == ClassPermanent) {
			err, class = a.err, a.class
		}
		if class == ClassOverload {
			break
		}
	}
	return class, err
}

// commit makes the result final, unless the load was given up before. It
// returns false if it was.
func (r *run[K, V]) commit() bool {
	g, l := r.g, r.l
	g.flights.Lock()
	defer g.flights.Unlock()
	if r.stuck = l.Overdue; r.stuck {
		g.stuck--
	}
	if r.l.Background() {
		g.refreshing--
	}
	if !l.FinalLocked() {
		for i, f := range l.Flights() {
			if r.err != nil {
				r.failLocked(f, r.err, r.class)
			} else if a := r.of(i); a.err != nil {
				r.failLocked(f, a.err, a.class)
			} else {
				r.keepLocked(i, f, a)
			}
		}
	}
	for i, f := range l.Flights() {
		r.countJoinsLocked(i, f.Joined())
	}
	if g.o.Observer != nil {
		g.telling++
	}
	if l.Group != nil {
		g.batches.EndLocked(l.Group)
	}
	counts := l.CompleteLocked()
	r.goOnLocked(counts)
	for _, f := range l.Flights() {
		g.reelectLocked(f.Key, r.ended)
	}
	g.idleLocked()
	return counts
}

// failLocked gives f an error. The table's lock must be held.
func (r *run[K, V]) failLocked(f *inflight.Flight[K, outcome[V]], err error, class Class) {
	f.Err = err
	if r.cools > 0 {
		r.g.count.cooled.Add(1)
		if !f.SupersededLocked() {
			r.g.coolLocked(f.Key, err, later(r.ended, r.cools))
		}
		return
	}
	if r.ctx == nil { // it was not called: the limiter panicked
		if !f.SupersededLocked() {
			r.g.postponeLocked(f.Key, later(r.g.clock(), r.g.o.RefreshRetry))
		}
		return
	}
	r.g.count.loadFailures.Add(1)
	if !f.SupersededLocked() {
		r.g.rememberLocked(f.Key, err, class, r.ended)
	}
}

// keepLocked gives f its entry, and puts it into memory unless it was
// overtaken. The table's lock must be held.
func (r *run[K, V]) keepLocked(i int, f *inflight.Flight[K, outcome[V]], a *answer[V]) {
	g := r.g
	f.Value.entry = a.entry
	if f.Value.fromTier = a.fromTier; a.fromTier {
		f.Value.at = r.ended
		g.count.tierHits.Add(1)
	} else if a.entry.kind == kindNegative {
		g.count.notFound.Add(1)
	}
	if a.heavy {
		g.count.tooHeavy.Add(1)
	}
	if i < len(r.costs) {
		a.entry.setCost(r.costs[i])
	}
	// Callers may have come between an invalidation by tag and a later one that
	// took the flight off the table, so the tags are looked at in any case.
	a.entry.setTags(g.internLocked(a.tags), r.l.Seq)
	f.Value.overtaken = a.entry.overtakenLocked()
	if r.overtakenElsewhere(i, a.entry) {
		f.Value.late = max(r.lookups[i].asked, 1)
	}
	switch {
	case f.SupersededLocked():
		g.count.superseded.Add(1)
		return
	case f.Value.overtaken, f.Value.late > 0:
		g.count.superseded.Add(1)
		g.postponeLocked(f.Key, r.ended) // the entry in memory may be refreshed again
		return
	}
	if g.fleet != nil {
		from := r.ended
		if a.fromTier {
			from = r.lookups[i].asked - int64(r.lookups[i].age)
		}
		a.entry.capped(later(from, g.fleet.o.MemoryCap))
	}
	if a.keep {
		g.store.Set(f.Key, a.entry)
	} else {
		g.removeLocked(f.Key)
	}
}

// expire is the hard timeout of l.
func (g *Guard[K, V]) expire(l *inflight.Load[K, outcome[V]]) {
	err := &TimeoutError{After: g.o.LoadTimeout}
	g.flights.Lock()
	if l.ReturnedLocked() {
		g.flights.Unlock()
		return
	}
	l.Overdue = true
	g.stuck++
	if l.Group != nil {
		g.batches.StickLocked(l.Group)
	}
	first := !l.FinalLocked()
	if first {
		now := g.clock()
		for _, f := range l.Flights() {
			g.count.loadFailures.Add(1)
			if !f.SupersededLocked() {
				g.rememberLocked(f.Key, err, ClassTransient, now)
			}
		}
		l.FailLocked(err)
	}
	lost := g.strandedLocked()
	g.flights.Unlock()
	if first {
		l.Expire(err)
	}
	g.worked(l.Flights(), g.o.LoadTimeout) // the time beyond it is counted when the load returns
	g.count.loadTimeouts.Add(1)
	defer g.event(l, EventTimedOut, l.Flights()[0].Key, err)
	g.dismiss(lost)
}
