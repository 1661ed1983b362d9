package weir

import (
	"context"

	"github.com/maypok86/otter/v2"
)

// slack is the number of entries that may be written between two checks of the
// bound. With the store's own buffer, a burst exceeds the bound by at most
// 1,024 entries.
const slack = 256

// trim makes the store keep its bound in a burst of n more writes. The store
// evicts on its own goroutine, and a burst is faster.
func (g *Guard[K, V]) trim(n int) {
	if total := g.stored.Add(uint64(n)); total/slack != (total-uint64(n))/slack {
		g.store.CleanUp()
	}
}

// deleted counts evictions. The store calls it under the store's lock, for each
// entry that is removed or replaced.
func (g *Guard[K, V]) deleted(e otter.DeletionEvent[K, *entry[V]]) {
	if e.Cause == otter.CauseOverflow {
		g.count.evicted.Add(1)
	}
}

// reportEviction reports an eviction, on a goroutine of the store and without a
// lock.
func (g *Guard[K, V]) reportEviction(e otter.DeletionEvent[K, *entry[V]]) {
	if e.Cause == otter.CauseOverflow {
		g.event(context.Background(), EventEvicted, e.Key, nil)
	}
}

// removeLocked takes key out of memory. The table's lock must be held.
func (g *Guard[K, V]) removeLocked(key K) {
	if _, ok := g.store.GetEntryQuietly(key); ok {
		g.store.Invalidate(key)
	}
}

// postponeLocked ends the state "refresh in flight" of key: the next refresh
// may start at from. The table's lock must be held.
func (g *Guard[K, V]) postponeLocked(key K, from instant) {
	e := g.lookup(key)
	if e == nil || e.kind == kindFailure {
		return
	}
	if due := e.due(); due != nil {
		from = min(from, farAhead-1) // never, unless elected
		if at := due.Load(); at == farAhead || at < from {
			due.Store(from)
		}
	}
}

// coolLocked remembers that the fleet does not load key before until, because
// of err, so that this instance need not ask. The table's lock must be held.
func (g *Guard[K, V]) coolLocked(key K, err error, until instant) {
	e := g.lookup(key)
	if g.clearing > 0 {
		e = nil // about to be removed, see InvalidateAll
	}
	if e == nil || e.kind != kindNegative || g.clock() >= e.freshUntil {
		g.store.Set(key, e.withMemo(memo{err: err, until: until, row: 1}))
	}
	g.postponeLocked(key, until)
}

// rememberLocked notes a failed load of key that ended at now: as a memo, if
// the Options have one or the source has stated a pause, and by postponing the next
// refresh. A value in memory keeps its instants (E3). The table's lock must be held.
func (g *Guard[K, V]) rememberLocked(key K, err error, class Class, now instant) {
	e := g.lookup(key)
	if g.clearing > 0 {
		e = nil // about to be removed, see InvalidateAll
	}
	retry := later(now, Backoff{g.o.RefreshRetry, g.o.RefreshRetryMax}.after(e.failedLocked()))
	pause := g.o.pause(err)
	if class == ClassCanceled {
		pause = 0
	}
	if b := g.o.FailureMemo.of(class); (b.Initial > 0 || pause > 0) && !(e != nil && e.kind == kindNegative && now < e.freshUntil) {
		m := memo{err: err, row: 1}
		if e != nil && e.extra != nil && e.extra.memo.err != nil {
			m.row += e.extra.memo.row
		}
		m.until = later(now, max(b.after(m.row), pause))
		retry = max(retry, m.until)
		e = e.withMemo(m)
		g.store.Set(key, e)
	}
	g.postponeLocked(key, retry)
}
