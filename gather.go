package weir

import (
	"context"
	"reflect"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/inflight"
)

// A Batching gathers the single misses of a Guard into bulk loads: those of
// Get, GetResult and Refresh, and separately those of background refreshes. The
// zero Batching is off.
//
// A bulk load first waits until it has MaxSize keys or Linger is over. Then it waits
// for one of MaxParallel places, and then for one permit of Options.Limiter, which
// covers all its keys. Only then is it closed and LoadMany called. Until then misses are added,
// keys without a waiting caller are taken out, and LoadTimeout does not count
// yet. The load sees the context values of the caller that opened it, except
// those that Source.LoadContext strips.
//
// In a fleet, a load that waits for another instance has no place.
//
// A bulk load that asks the same Guard for another key needs a second place for
// it. If none becomes free it waits until its own LoadTimeout.
type Batching struct {
	// MaxSize is the most keys that a bulk load has, 2 or more. Zero: misses
	// are not gathered.
	MaxSize int

	// Linger is how long the first key waits for others while there are fewer
	// than MaxSize. Zero: not at all; misses that arrive while all places are
	// taken are loaded together.
	Linger time.Duration

	// MaxParallel is the number of bulk loads that run at once, including those
	// of GetMany. If there are several places, refreshes leave the last one to
	// misses. A load that is stuck keeps its place; with all places stuck,
	// misses fail at once with ErrStuck. Zero: DefaultBatchParallel.
	MaxParallel int
}

// scope returns the scope of key for a caller with ctx. It calls the user's code, so the table must
// not be locked.
func (g *Guard[K, V]) scope(ctx context.Context, key K) any {
	if g.batches == nil || g.src.BatchScope == nil {
		return nil
	}
	s := g.batchScope(ctx, key)
	switch s.(type) {
	case nil, string, int, int64, uint64: // avoids reflection
		return s
	}
	if !reflect.ValueOf(s).Comparable() || s != s {
		return new(int8) // equal to nothing else: the key is loaded alone
	}
	return s
}

// scopes returns the scope of each key, or nil if nothing is gathered.
func (g *Guard[K, V]) scopes(ctx context.Context, keys []K) []any {
	if g.batches == nil {
		return nil
	}
	scopes := make([]any, len(keys))
	for i, key := range keys {
		scopes[i] = g.scope(ctx, key)
	}
	return scopes
}

// scopesOf is scopes for keys that memory does not answer.
func (g *Guard[K, V]) scopesOf(ctx context.Context, rest []missing[K, V]) []any {
	if g.batches == nil {
		return nil
	}
	scopes := make([]any, len(rest))
	for i, m := range rest {
		scopes[i] = g.scope(ctx, m.key)
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
	g.newRun(l)
	l.Seq = g.seq // until it departs
	f = l.Flights()[0]
	f.Began = now
	l.Group = g.batches.OpenLocked(scope, background, l)
	return f, true, nil
}

// mayRefreshLocked reports whether the ith key may be refreshed in the
// background: another background load may start, or one for its scope is still
// gathering. The table's lock must be held.
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
	at := make(map[any]int) // per scope, the bulk that is not full
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

// gather waits until the load is due and has a place. It returns false if the
// load was given up before that.
func (r *run[K, V]) gather() bool {
	if r.l.Group == nil {
		return true
	}
	r.start = r.clock()
	return r.g.batches.Wait(r.l, &r.g.flights, r.l.Group)
}

// depart closes the load: no more keys are added, and its results count as
// loaded from now. It returns false if the load was given up.
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
		// A key that was invalidated while its load was gathering may be in it
		// twice.
		r.repeats = r.repeats || f.SupersededLocked()
	}
	r.queued = r.clock().Sub(r.start)
	return true
}

// strandedLocked fails the loads that wait for a place, if loads that hang take
// all places, because it is unknown when one will be free. After Unlock the
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

// dismiss wakes the callers of loads that strandedLocked has failed.
func (g *Guard[K, V]) dismiss(lost []*inflight.Load[K, outcome[V]]) {
	for _, l := range lost {
		g.count.stuckRefusals.Add(1)
		l.End(ErrStuck)
	}
	for _, l := range lost { // after all of them, as it may not return
		g.event(l, EventRefused, l.Flights()[0].Key, ErrStuck)
	}
}

// retryLaterLocked postpones the next refresh of l's entries by RefreshRetry
// after l was refused. The table's lock must be held.
func (g *Guard[K, V]) retryLaterLocked(l *inflight.Load[K, outcome[V]]) {
	for _, f := range l.Flights() {
		if !f.SupersededLocked() {
			g.postponeLocked(f.Key, later(g.clock(), g.o.RefreshRetry))
		}
	}
}
