package weir

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/internal/lend"
)

// GetMany is [Guard.GetResult] for several keys: it answers from memory where it
// can, joins running loads, and loads the remaining keys in one call to
// Source.LoadMany or LoadEntries, under one permit; with Options.Batch in one
// call per scope and MaxSize keys. Without either function it starts a load per
// key. The map has one result for each distinct key.
//
// When ctx ends, the keys without a result get its cause as their error. A bulk
// load is canceled when the callers of all its keys have left.
func (g *Guard[K, V]) GetMany(ctx context.Context, keys []K) map[K]Result[V] {
	m := g.many(ctx, keys, Policy{})
	defer m.leave()
	return m.all()
}

// GetManySeq is [Guard.GetMany] with results in the order of keys, each as soon
// as it and those before it are available. A key that is in keys twice is
// yielded twice, with the same result.
//
// All loads start when the iteration begins, before the first result, and again
// in each iteration. An iteration that ends early leaves the loads of the keys
// that it has not reached; other callers that wait for them keep them running.
// No lock is held during the loop's body: it may be slow, and may call the
// Guard.
func (g *Guard[K, V]) GetManySeq(ctx context.Context, keys []K) iter.Seq2[K, Result[V]] {
	return func(yield func(K, Result[V]) bool) {
		m := g.many(ctx, keys, Policy{})
		defer m.leave()
		for _, key := range keys {
			if !yield(key, m.one(key)) {
				return
			}
		}
	}
}

// A many is one call for several keys.
type many[K comparable, V any] struct {
	g       *Guard[K, V]
	ctx     context.Context
	policy  Policy  // of each call: that of Refresh, or the zero Policy
	came    instant // in a fleet: when the first of its calls entered
	results map[K]Result[V]
	counted map[K]bool       // keys in again that already waited for a load
	calls   []manyCall[K, V] // of the keys that are not in memory
	at      map[K]int        // index of a key in calls; nil until needed
	again   []K              // keys for which memory must be looked at again
}

// A manyCall is a call that is on a flight, or waits until one is final.
type manyCall[K comparable, V any] struct {
	call[K, V]
	joined bool
	done   bool
	ending *inflight.Flight[K, outcome[V]] // instead of a joiner: its result is older than the call
}

// many answers from memory where it can, and starts or joins the loads of the
// other keys. The caller defers leave at once.
func (g *Guard[K, V]) many(ctx context.Context, keys []K, p Policy) *many[K, V] {
	m := &many[K, V]{
		g: g, ctx: ctx, policy: p,
		results: make(map[K]Result[V], len(keys)), counted: make(map[K]bool),
	}
	m.begin(keys)
	return m
}

// leave takes the call off all flights that it is still on, and counts the keys that
// have neither joined nor started a load.
func (m *many[K, V]) leave() {
	for i := range m.calls {
		c := &m.calls[i]
		c.leave()
		if c.ending != nil && !c.done {
			c.done = true
			once(&m.g.count.rejected, m.counted[c.key])
		}
	}
	for _, key := range m.again {
		once(&m.g.count.rejected, m.counted[key])
	}
	m.again = nil
}

// begin looks at memory, and starts or joins the loads of the missing keys.
// User code that does not return leaves no joiner behind.
func (m *many[K, V]) begin(keys []K) {
	m.calls, m.at, m.again = nil, nil, nil
	missing := m.fromMemory(keys)
	if len(missing) == 0 {
		return
	}
	if m.g.fleet != nil && m.came == 0 {
		m.came = m.g.clock()
	}
	begun := false
	defer func() {
		if !begun {
			m.leave()
		}
	}()
	m.calls = make([]manyCall[K, V], 0, len(missing))
	m.load(missing)
	for i := range m.calls { // all of them wait from now on, although they are awaited one after another
		m.calls[i].waitStart(m.g.clock())
	}
	begun = true
}

// all waits for the keys without a result, and returns all results. Keys for
// which memory must be looked at again are handled together: this is rare, but
// there may be many of them, and they must not be loaded one by one.
func (m *many[K, V]) all() map[K]Result[V] {
	for {
		for i := range m.calls {
			m.await(&m.calls[i])
		}
		if len(m.again) == 0 {
			return m.results
		}
		m.begin(m.again)
	}
}

// one waits for the result of key, which must be one of the keys that m began
// with.
func (m *many[K, V]) one(key K) Result[V] {
	if err := checkKey(key); err != nil {
		return Result[V]{Err: err}
	}
	if m.at == nil {
		m.at = make(map[K]int, len(m.calls))
		for i := range m.calls {
			m.at[m.calls[i].key] = i
		}
	}
	if i, ok := m.at[key]; ok {
		m.await(&m.calls[i])
	}
	if r, ok := m.results[key]; ok {
		return r
	}
	return m.all()[key] // key is in again
}

// await waits for the result of c, or records that memory must be looked at
// again.
func (m *many[K, V]) await(c *manyCall[K, V]) {
	if c.done {
		return
	}
	c.done = true
	var r Result[V]
	var ok bool
	if c.ending != nil {
		ok = c.passSoft(c.ending, &r)
	} else {
		ok = c.awaitOn(c.joined, &r)
	}
	if ok && c.fits(r) {
		m.results[c.key] = handOn(m.ctx, m.g, r)
		return
	}
	m.counted[c.key] = m.counted[c.key] || c.ending == nil
	m.lookAgain(c.key)
}

// lookAgain adds key to the next round.
func (m *many[K, V]) lookAgain(key K) {
	delete(m.results, key)
	m.again = append(m.again, key)
}

// fromMemory answers from memory where it can, starts one refresh for all keys
// that are due, and returns the other keys.
func (m *many[K, V]) fromMemory(keys []K) []missing[K, V] {
	g := m.g
	var rest []missing[K, V]
	var due elections[K, V]
	defer due.takeBack()
	now := g.clock()
	for _, key := range keys {
		if checkKey(key) != nil {
			m.results[key] = Result[V]{Err: ErrKey}
			g.count.rejected.Add(1)
			continue
		}
		if _, seen := m.results[key]; seen {
			continue
		}
		if g.hot != nil {
			g.asked(key, rand.Uint64(), now)
		}
		var e *entry[V]
		if !m.policy.Bypass {
			e = g.lookup(key)
			if g.elect(e, now) {
				due.add(key, e, now)
			}
			if r, ok := g.fromMemory(m.ctx, key, e, now, m.counted[key]); ok {
				m.results[key] = handOn(m.ctx, g, r)
				continue
			}
		}
		m.results[key] = Result[V]{} // seen; its call fills it
		rest = append(rest, missing[K, V]{key, e})
	}
	g.refreshMany(m.ctx, &due, now)
	return rest
}

// missing is a key that memory cannot answer, with the entry that it holds.
type missing[K comparable, V any] struct {
	key   K
	entry *entry[V]
}

// call returns a call for key.
func (m *many[K, V]) call(key K) call[K, V] {
	return call[K, V]{g: m.g, ctx: m.ctx, key: key, policy: m.policy, forced: m.policy.Bypass, counted: m.counted[key], came: m.came}
}

// turnedCall is a call whose load is queued longer than the call can wait.
type turnedCall[K comparable, V any] struct {
	call[K, V]
	refusal error
}

// load joins the flights of the keys, and starts a load for those that have
// none, before it waits for any of them. It sets the results of refused keys
// itself.
func (m *many[K, V]) load(rest []missing[K, V]) {
	g := m.g
	ready := rest[:0]
	for _, one := range rest {
		c := m.call(one.key)
		if err := c.refused(); err != nil {
			c.counts(&g.count.rejected)
			m.results[one.key] = Result[V]{Err: err}
		} else {
			ready = append(ready, one)
		}
	}
	var started []*inflight.Load[K, outcome[V]]
	var absent []K
	var absentScopes []any
	var refused []K
	var turned []turnedCall[K, V]
	now, d, within := g.clock(), admit.Of(m.ctx, g.o.Limiter), lend.From(m.ctx)
	scopes := g.scopesOf(m.ctx, ready)

	g.flights.Lock()
	on := func(key K, joined bool) *manyCall[K, V] { // calls has the capacity: a call is not moved
		m.calls = append(m.calls, manyCall[K, V]{call: m.call(key), joined: joined})
		c := &m.calls[len(m.calls)-1]
		c.demand, c.within = d, within
		return c
	}
	starts := func(l *inflight.Load[K, outcome[V]]) {
		l.Forced = m.policy.Bypass
		started = append(started, l)
		for _, f := range l.Flights() {
			c := on(f.Key, false)
			c.enterLocked()
			c.attachLocked(f)
			once(&g.count.started, m.counted[f.Key])
		}
	}
	for i, one := range ready {
		f := g.flights.FindLocked(one.key)
		switch {
		case g.closed.Load():
			once(&g.count.rejected, m.counted[one.key])
			m.results[one.key] = Result[V]{Err: ErrClosed}
		case f != nil && f.Load().Ending():
			on(one.key, true).ending = f
		case f == nil && !m.policy.Bypass && g.lookup(one.key) != one.entry:
			m.lookAgain(one.key)
		case f != nil:
			c := on(one.key, true)
			if err := c.joinLocked(f); err != nil {
				m.calls = m.calls[:len(m.calls)-1]
				turned = append(turned, turnedCall[K, V]{m.call(one.key), err})
				continue
			}
			c.enterLocked()
			once(&g.count.joins, m.counted[one.key])
		case g.hungLocked():
			refused = append(refused, one.key)
		case g.src.bulk():
			absent = append(absent, one.key)
			if scopes != nil {
				absentScopes = append(absentScopes, scopes[i])
			}
		default:
			f, _, _ := g.startLocked(m.ctx, one.key, nil, now, d) // Batch needs a bulk load: nothing is gathered here
			starts(f.Load())
		}
	}
	for _, keys := range g.bulks(absent, absentScopes) {
		starts(g.startManyLocked(m.ctx, keys, false, now, d))
	}
	g.flights.Unlock()

	for _, l := range started {
		go l.Run()
	}
	for _, t := range turned {
		t.turnedAway(t.refusal)
		var r Result[V]
		t.fail(t.refusal, &r)
		m.results[t.key] = r
	}
	for _, key := range refused {
		c := m.call(key)
		g.count.stuckRefusals.Add(1)
		c.counts(&g.count.turnedAway)
		g.event(m.ctx, EventRefused, key, ErrStuck)
		var r Result[V]
		c.fail(ErrStuck, &r)
		m.results[key] = r
	}
}

// startManyLocked puts a load for keys into the table. No keys can be added to
// it. The table's lock must be held.
func (g *Guard[K, V]) startManyLocked(ctx context.Context, keys []K, background bool, now instant, d admit.Demand) *inflight.Load[K, outcome[V]] {
	l := g.flights.StartManyLocked(ctx, keys, background)
	g.newRun(l)
	l.Seq = g.seq
	for _, f := range l.Flights() {
		f.Began = now
	}
	if g.batches != nil {
		l.Group = g.batches.SendLocked(l)
	}
	return l
}
