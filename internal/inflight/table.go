package inflight

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/lend"
)

// A Table holds the flights that may be joined, at most one a key. The zero
// Table is ready to use.
//
// Its lock is the owner's lock too: what must happen in one step with a change
// of the table (a look at the store, a write to it) is done between Lock and
// Unlock. Nothing of the user's runs under it.
type Table[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*Flight[K, V] // guarded by mu; never holds a final flight
	live    Load[K, V]          // guarded by mu; root of the ring of loads whose function has not returned
	running int                 // guarded by mu; length of that ring

	abandoned uint64 // guarded by mu; loads that were canceled because nobody waited

	// Splits is the owner's, written before the first use: flights may be taken
	// out of loads of several keys, see MoveLocked.
	Splits bool
}

// A Flight is the answer for one key of a running load.
type Flight[K comparable, V any] struct {
	Key  K
	load atomic.Pointer[Load[K, V]] // see Load; written under Table.mu

	// Value and Err are written before the load is final and read after.
	Value V
	Err   error

	// Began is the owner's: when the flight came into the table. It is written
	// before others can find it.
	Began int64

	joined   int32 // guarded by Table.mu: callers that were ever on this flight
	waiting  int32 // guarded by Table.mu: those of them that wait now
	detached bool  // guarded by Table.mu: superseded; later callers start anew

	moved chan struct{} // closed when load has changed; nil where that cannot be
}

// A Load is one run of a function.
type Load[K comparable, V any] struct {
	loadContext
	// Call has the calls that wait for the load, and what they can lend.
	Call lend.Call

	table   *Table[K, V]
	flights []*Flight[K, V] // while gathering is true: guarded by Table.mu; not changed after

	// Group is the owner's, written at the start: the load's place in a queue,
	// nil if it needs none.
	Group *gather.Group

	// Seq is the owner's, written before the function runs: the number of
	// invalidations it had seen. Observed, too, is the owner's, guarded by
	// Table.mu: the context that the function was given, for who links to it.
	Seq      uint64
	Observed context.Context

	// Queue, the owner's too and guarded by Table.mu, is where the load waits for
	// admission; nil before that.
	Queue Queue
	// Overdue, the owner's too and guarded by Table.mu: the hard timeout has
	// passed.
	Overdue bool
	// Forced, the owner's too and written at the start: what others have loaded
	// already will not do.
	Forced bool
	// Renews likewise: a value loaded by others is used only if it is fresh,
	// and newer than the one in the owner's store.
	Renews bool
	// Fence, the owner's too and guarded by Table.mu, is that of the fleet's
	// lease under which the load runs; 0 for none.
	Fence uint64
	// Stage, the owner's too, is how far the load has come. It is an atomic,
	// since the load's goroutine moves on without the lock.
	Stage atomic.Int32

	background bool        // written at the start: it was pinned then
	pinned     bool        // guarded by Table.mu: the owner counts as a joiner
	final      bool        // guarded by Table.mu
	returned   bool        // guarded by Table.mu: the function has returned, its goroutine is about to end
	ending     atomic.Bool // the function has returned; not under the lock, so that it is seen at once
	gathering  atomic.Bool // flights may be added; written under Table.mu, atomic for runs, which does not take it
	joiners    int         // guarded by Table.mu: callers that wait now, on any of the flights
	departures uint64      // guarded by Table.mu: how often joiners fell to zero
	grace      *time.Timer // guarded by Table.mu: since the last time they did

	prev, next *Load[K, V] // guarded by Table.mu: the ring of live loads
}

// A Queue is where a load waits for admission on behalf of its joiners.
type Queue interface {
	// Join is for one who joins; an error refuses it.
	Join(until time.Time, urgency int8) error
	// Leave is for a caller who has left; rest is the highest urgency that stays.
	Leave(rest int8)
}

// single is a load of one key: one allocation for all of it.
type single[K comparable, V any] struct {
	Load[K, V]
	flight [1]Flight[K, V]
	list   [1]*Flight[K, V]
}

// Lock locks the table.
func (t *Table[K, V]) Lock() { t.mu.Lock() }

// Unlock unlocks the table.
func (t *Table[K, V]) Unlock() { t.mu.Unlock() }

// FindLocked returns the flight for key that a caller may join, or nil. A
// flight whose Ending is true must not be joined. t.mu must be held.
func (t *Table[K, V]) FindLocked(key K) *Flight[K, V] { return t.flights[key] }

// StartLocked puts a load for key into the table, with the caller as its first
// joiner, or with nobody on it but the owner when pinned. The load's context
// gets its values from ctx. The owner must run the function and end with
// CompleteLocked. t.mu must be held, and key must have no flight.
func (t *Table[K, V]) StartLocked(ctx context.Context, key K, pinned bool) *Load[K, V] {
	s := &single[K, V]{}
	s.flight[0].Key = key
	s.list[0] = &s.flight[0]
	s.flights = s.list[:]
	t.addLocked(&s.Load, ctx, pinned)
	return &s.Load
}

// StartManyLocked is StartLocked for several keys that one function call
// loads. The caller joins each of them.
func (t *Table[K, V]) StartManyLocked(ctx context.Context, keys []K, pinned bool) *Load[K, V] {
	l := &Load[K, V]{flights: make([]*Flight[K, V], len(keys))}
	flights := make([]Flight[K, V], len(keys))
	for i, key := range keys {
		flights[i].Key = key
		if t.Splits {
			flights[i].moved = make(chan struct{})
		}
		l.flights[i] = &flights[i]
	}
	t.addLocked(l, ctx, pinned)
	return l
}

// addLocked enters l and its flights. t.mu must be held.
func (t *Table[K, V]) addLocked(l *Load[K, V], ctx context.Context, pinned bool) {
	l.init(ctx, l, &l.Call)
	l.table = t
	l.background, l.pinned = pinned, pinned
	if t.flights == nil {
		t.flights = make(map[K]*Flight[K, V])
		t.live.prev, t.live.next = &t.live, &t.live
	}
	for _, f := range l.flights {
		f.load.Store(l)
		t.flights[f.Key] = f
		if !pinned {
			f.JoinLocked()
		}
	}
	l.prev, l.next = t.live.prev, &t.live
	l.prev.next, l.next.prev = l, l
	t.running++
}

// JoinLocked makes the caller a joiner of f. The table's lock must be held.
func (f *Flight[K, V]) JoinLocked() {
	f.joined++
	f.waiting++
	f.Load().joiners++
}

// DetachLocked takes the flight of key off the table: it goes on for the callers that
// wait for it, is marked superseded, and later callers start anew. It reports
// whether there was one. t.mu must be held.
func (t *Table[K, V]) DetachLocked(key K) bool {
	f := t.flights[key]
	if f == nil {
		return false
	}
	f.detached = true
	delete(t.flights, key)
	return true
}

// DetachAllLocked is DetachLocked for every key. It returns how many flights
// there were. t.mu must be held.
func (t *Table[K, V]) DetachAllLocked() int {
	n := len(t.flights)
	for _, f := range t.flights {
		f.detached = true
	}
	clear(t.flights)
	return n
}

// LenLocked returns the number of flights that may be joined. t.mu must be
// held.
func (t *Table[K, V]) LenLocked() int { return len(t.flights) }

// RunningLocked returns the number of loads whose function has not returned,
// also those that nobody waits for any more. t.mu must be held.
func (t *Table[K, V]) RunningLocked() int { return t.running }

// AbandonedLocked returns how many loads were canceled because their last
// joiner had left. t.mu must be held.
func (t *Table[K, V]) AbandonedLocked() uint64 { return t.abandoned }

// FinishAllLocked makes every running load final with err, and returns those
// that were not final before. After Unlock the caller must End each of them.
// t.mu must be held.
func (t *Table[K, V]) FinishAllLocked(err error) []*Load[K, V] {
	var ended []*Load[K, V]
	for l := range t.LiveLocked() {
		if l.FailLocked(err) {
			ended = append(ended, l)
		}
	}
	return ended
}

// LiveLocked goes through the loads whose function has not returned, also those
// that nobody waits for any more, in the order in which they were started, but for
// a flight that was moved: its load comes after the one that it was taken out of.
// t.mu must be held.
func (t *Table[K, V]) LiveLocked() iter.Seq[*Load[K, V]] {
	return func(yield func(*Load[K, V]) bool) {
		if t.running == 0 {
			return // perhaps there was never one: then there is no ring
		}
		for l := t.live.next; l != &t.live && yield(l); l = l.next {
		}
	}
}

// Recursive reports whether a caller with ctx would, by waiting for key, wait
// for itself: ctx was given to a load that runs key now. It asks ctx, which may
// be the user's code, so the lock must not be held.
func (t *Table[K, V]) Recursive(ctx context.Context, key K) bool {
	if ctx.Value(ancestorKey{}) == nil {
		return false // spares boxing key
	}
	return descends(ctx, t, key)
}

func (l *Load[K, V]) runs(table, key any) bool {
	if t, ok := table.(*Table[K, V]); !ok || t != l.table || l.stop.Err() != nil || l.gathering.Load() {
		return false // another table, or a load that is over, or one that does not run yet
	}
	k := key.(K)
	for _, f := range l.flights {
		if f.Key == k {
			return true
		}
	}
	return false
}

// Values returns the context that the load's context takes its values from.
func (l *Load[K, V]) Values() context.Context { return l.values }

// SetValues replaces it. It is called on the load's goroutine, before the
// function runs.
func (l *Load[K, V]) SetValues(ctx context.Context) { l.values = ctx }

// SetDeadline states the hard timeout that the owner will enforce. It is
// called on the load's goroutine, before the function runs.
func (l *Load[K, V]) SetDeadline(t time.Time) { l.deadline = t }
