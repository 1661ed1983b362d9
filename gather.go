package weir

import (
	"context"
	"reflect"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
)

// A Batching gathers the single misses of a Guard into bulk loads: those of
// Get, GetResult and Refresh, and apart from them those of background
// refreshes. The zero Batching is off.
//
// A bulk load waits until it has MaxSize keys or Linger is over, then for one
// of MaxParallel places, then for the permit of Options.Limiter, one for all
// its keys. Only then is it closed and LoadMany called; until then misses are
// added, keys that nobody waits for any more are taken out, and LoadTimeout has
// not begun to count. The load sees the context values of the caller that opened
// the load, less what Source.LoadContext strips.
//
// A bulk load that itself asks the Guard for another key needs a second place for
// that. If there is none it waits until its own LoadTimeout.
type Batching struct {
	// MaxSize is how many keys a bulk load has at most, at least 2. Zero:
	// misses are not gathered.
	MaxSize int

	// Linger is how long the first key waits for others while there are fewer
	// than MaxSize. Zero: not at all; what comes while all places are taken
	// goes together.
	Linger time.Duration

	// MaxParallel is how many bulk loads run at once, those of GetMany
	// included. Refreshes leave the last of several places to misses. A load
	// that is stuck keeps its place; with all places stuck, misses fail at once
	// with ErrStuck. Zero: DefaultBatchParallel.
	MaxParallel int
}

// scope returns what key may be gathered with. It is the user's code, so the
// table must not be locked.
func (g *Guard[K, V]) scope(key K) any {
	if g.batches == nil || g.src.BatchScope == nil {
		return nil
	}
	s := g.batchScope(key)
	switch s.(type) {
	case nil, string, int, int64, uint64: // spares reflection
		return s
	}
	if !reflect.ValueOf(s).Comparable() || s != s {
		return new(int8) // equal to nothing else: the key goes alone
	}
	return s
}

// scopes returns the scope of each key, or nil if nothing is gathered.
func (g *Guard[K, V]) scopes(keys []K) []any {
	if g.batches == nil {
		return nil
	}
	scopes := make([]any, len(keys))
	for i, key := range keys {
		scopes[i] = g.scope(key)
	}
	return scopes
}

// scopesOf is scopes for keys that memory does not answer.
func (g *Guard[K, V]) scopesOf(rest []missing[K, V]) []any {
	if g.batches == nil {
		return nil
	}
	scopes := make([]any, len(rest))
	for i, m := range rest {
		scopes[i] = g.scope(m.key)
	}
	return scopes
}

// gatherLocked adds key to the open load of its scope, or opens one, in which
// case the caller must run it. It refuses a caller that the open load cannot
// serve in time, see joinLocked. The table's lock must be held.
func (g *Guard[K, V]) gatherLocked(ctx context.Context, key K, scope any, now instant, d admit.Demand, background bool) (f *inflight.Flight[K, outcome[V]], first bool, err error) {
	if group := g.batches.FindLocked(scope, background); group != nil {
		l := group.Batch.(*inflight.Load[K, outcome[V]])
		if err := queueLocked(l, d); err != nil {
			return nil, false, err
		}
		f = l.AddLocked(key, !background)
		f.Began = now
		g.batches.AddedLocked(group)
		return f, false, nil
	}
	l := g.flights.StartOpenLocked(ctx, key, background)
	f = l.Flights()[0]
	f.Began = now
	l.Group = g.batches.OpenLocked(scope, background, l)
	return f, true, nil
}

// mayRefreshLocked reports whether the ith of the keys with these scopes may be
// refreshed in the background: there is a place for one more load, or one that
// still gathers. The table's lock must be held.
func (g *Guard[K, V]) mayRefreshLocked(scopes []any, i int) bool {
	if g.hungLocked() {
		return false
	}
	return g.refreshing < g.o.MaxRefreshes || g.batches != nil && g.batches.FindLocked(scopes[i], true) != nil
}

// hungLocked reports whether no load may start because too many hang. The
// table's lock must be held.
func (g *Guard[K, V]) hungLocked() bool {
	return g.stuck >= g.o.MaxStuck || g.batches != nil && g.batches.HungLocked()
}

// bulks splits the keys of a GetMany into bulk loads.
func (g *Guard[K, V]) bulks(keys []K, scopes []any) [][]K {
	if len(keys) == 0 {
		return nil
	}
	if g.batches == nil {
		return [][]K{keys}
	}
	var bulks [][]K
	at := make(map[any]int) // of each scope, the bulk that is not full
	for i, key := range keys {
		n, ok := at[scopes[i]]
		if !ok || len(bulks[n]) == g.o.Batch.MaxSize {
			n = len(bulks)
			at[scopes[i]] = n
			bulks = append(bulks, nil)
		}
		bulks[n] = append(bulks[n], key)
	}
	return bulks
}

// gather waits until the load is due and has a place. It reports false if it
// was given up before.
func (r *run[K, V]) gather() bool {
	if r.l.Group == nil {
		return true
	}
	r.start = r.clock()
	return r.g.batches.Wait(r.l, &r.g.flights, r.l.Group)
}

// depart closes the load: no key is added any more, and what it brings counts
// as of now. It reports false if the load was given up.
func (r *run[K, V]) depart() bool {
	g, l := r.g, r.l
	if l.Group == nil {
		return true
	}
	g.flights.Lock()
	defer g.flights.Unlock()
	if l.FinalLocked() {
		return false
	}
	l.CloseLocked()
	g.batches.CloseLocked(l.Group)
	l.Seq = g.seq
	for _, f := range l.Flights() {
		// A key that was invalidated while it was gathered may be in twice.
		r.repeats = r.repeats || f.SupersededLocked()
	}
	r.queued = r.clock().Sub(r.start)
	return true
}

// strandedLocked fails the loads that wait for a place, if all places are taken
// by loads that hang: nobody can say when there will be one. After Unlock the
// caller must hand them to dismiss. The table's lock must be held.
func (g *Guard[K, V]) strandedLocked() []*inflight.Load[K, outcome[V]] {
	if g.batches == nil || !g.batches.HungLocked() {
		return nil
	}
	var lost []*inflight.Load[K, outcome[V]]
	for _, b := range g.batches.WaitingLocked() {
		l := b.(*inflight.Load[K, outcome[V]])
		if l.FailLocked(ErrStuck) {
			g.retryLaterLocked(l)
			lost = append(lost, l)
		}
	}
	return lost
}

// dismiss wakes the callers that wait for loads that strandedLocked has failed.
func (g *Guard[K, V]) dismiss(lost []*inflight.Load[K, outcome[V]]) {
	for _, l := range lost {
		l.End(ErrStuck)
		g.count.stuckRefusals.Add(1)
	}
	for _, l := range lost { // after all of them, as it may not return
		g.event(l, EventRefused, l.Flights()[0].Key, ErrStuck)
	}
}

// retryLaterLocked has the entries of l, which was refused, left alone for
// RefreshRetry. The table's lock must be held.
func (g *Guard[K, V]) retryLaterLocked(l *inflight.Load[K, outcome[V]]) {
	for _, f := range l.Flights() {
		if !f.SupersededLocked() {
			g.postponeLocked(f.Key, later(g.clock(), g.o.RefreshRetry))
		}
	}
}
