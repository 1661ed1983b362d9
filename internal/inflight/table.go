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

// A Table holds the flights that callers can join, at most one per key. The zero
// Table is ready to use.
//
// Its lock is the owner's lock too: whatever must be atomic with a change of the
// table (reading the store, writing to it) is done between Lock and Unlock. No
// user code runs under it.
type Table[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*Flight[K, V] // guarded by mu; never holds a final flight
	live    Load[K, V]          // guarded by mu; root of the ring of loads whose function has not returned
	running int                 // guarded by mu; length of that ring

	abandoned uint64 // guarded by mu; loads canceled because no caller waited

	// Splits is set by the owner before the first use: flights can be moved out
	// of loads of several keys, see MoveLocked.
	Splits bool
}

// A Flight is the result for one key of a running load.
type Flight[K comparable, V any] struct {
	Key  K
	load atomic.Pointer[Load[K, V]] // see Load; written under Table.mu

	// Value and Err are written before the load is final and read after.
	Value V
	Err   error

	// Began is set by the owner: when the flight was put into the table. It is
	// written before other callers can find the flight.
	Began int64

	joined   int32 // guarded by Table.mu: callers that ever joined this flight
	waiting  int32 // guarded by Table.mu: callers that are waiting now
	detached bool  // guarded by Table.mu: superseded; later callers start a new load

	moved chan struct{} // closed when load has changed; nil if it cannot change
}

// A Load is one run of a function.
type Load[K comparable, V any] struct {
	loadContext
	// Call holds the calls that wait for the load, and what they can lend.
	Call lend.Call

	table   *Table[K, V]
	flights []*Flight[K, V] // while gathering is true: guarded by Table.mu; unchanged afterwards, except by MoveLocked

	// Group belongs to the owner and is set at the start, or on the load's goroutine under
	// Table.mu: the load's place in a queue, nil if it needs none.
	Group *gather.Group

	// Seq is set by the owner before the function runs: the number of
	// invalidations it had seen. Observed is set by the owner and guarded by
	// Table.mu: the context that the function received, for observers that link
	// to it.
	Seq      uint64
	Observed context.Context

	// Queue belongs to the owner and is guarded by Table.mu. The load waits in it
	// for admission; nil before that.
	Queue Queue
	// Abandoned is set by the owner at the start, or nil. It is called without a lock once no
	// caller wants the load any more, or the hard timeout has passed, while the function may
	// still run.
	Abandoned interface{ Abandon() }
	// Overdue belongs to the owner and is guarded by Table.mu: the hard timeout
	// has passed.
	Overdue bool
	// Forced is set by the owner at the start: values already loaded by other
	// instances are not used.
	Forced bool
	// Renews is set by the owner at the start: a value loaded by another instance
	// is used only if it is fresh, and newer than the one in the owner's store.
	Renews bool
	// Fence belongs to the owner and is guarded by Table.mu: the fence of the
	// fleet's lease under which the load runs; 0 for none.
	Fence uint64
	// Run is set by the owner at the start: the load's goroutine calls it.
	Run func()
	// Stage belongs to the owner: how far the load has come. It is atomic because
	// the load's goroutine advances it without the lock.
	Stage atomic.Int32

	background bool        // written at the start: the load was pinned then
	pinned     bool        // guarded by Table.mu: the owner counts as a joiner
	final      bool        // guarded by Table.mu
	returned   bool        // guarded by Table.mu: the function has returned, its goroutine is about to end
	ending     atomic.Bool // the function has returned; not under the lock, so that it is visible at once
	gathering  atomic.Bool // flights can be added; written under Table.mu, read by runs without it
	joiners    int         // guarded by Table.mu: callers waiting now, on any of the flights
	departures uint64      // guarded by Table.mu: how often the number of joiners fell to zero
	grace      *time.Timer // guarded by Table.mu: the timer of the last departure

	prev, next *Load[K, V] // guarded by Table.mu: the ring of live loads
}

// A Queue is where a load waits for admission on behalf of its joiners.
type Queue interface {
	// Join is called for a caller that joins; an error rejects it.
	Join(until time.Time, urgency int8) error
	// Leave is called for a caller that has left; rest is the highest remaining
	// urgency.
	Leave(rest int8)
}

// A Single is a load of one key, with its flight. The owner can make it a part of what it
// needs for the load itself, so that both are one allocation. The zero Single is ready for
// StartInLocked.
type Single[K comparable, V any] struct {
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
// joiner, or if pinned, with only the owner. The load's context gets its values
// from ctx. The owner must run the function and end with CompleteLocked. t.mu
// must be held, and key must have no flight.
func (t *Table[K, V]) StartLocked(ctx context.Context, key K, pinned bool) *Load[K, V] {
	return t.StartInLocked(new(Single[K, V]), ctx, key, pinned)
}

// StartInLocked is StartLocked for a load that is kept in s.
func (t *Table[K, V]) StartInLocked(s *Single[K, V], ctx context.Context, key K, pinned bool) *Load[K, V] {
	s.flight[0].Key = key
	s.list[0] = &s.flight[0]
	s.flights = s.list[:]
	t.addLocked(&s.Load, ctx, pinned)
	return &s.Load
}

// StartManyLocked is StartLocked for several keys that a single function call
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

// addLocked adds l and its flights to the table. t.mu must be held.
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

// DetachLocked removes the flight of key from the table and marks it as
// superseded. The callers that wait for it still get its result; later callers
// start a new load. It reports whether there was a flight. t.mu must be held.
func (t *Table[K, V]) DetachLocked(key K) bool {
	f := t.flights[key]
	if f == nil {
		return false
	}
	f.detached = true
	delete(t.flights, key)
	return true
}

// DetachAllLocked is DetachLocked for every key. It returns the number of flights
// detached. t.mu must be held.
func (t *Table[K, V]) DetachAllLocked() int {
	n := len(t.flights)
	for _, f := range t.flights {
		f.detached = true
	}
	clear(t.flights)
	return n
}

// LenLocked returns the number of flights that can be joined. t.mu must be held.
func (t *Table[K, V]) LenLocked() int { return len(t.flights) }

// RunningLocked returns the number of loads whose function has not returned,
// including those that no caller waits for any more. t.mu must be held.
func (t *Table[K, V]) RunningLocked() int { return t.running }

// AbandonedLocked returns the number of loads canceled because their last joiner
// had left. t.mu must be held.
func (t *Table[K, V]) AbandonedLocked() uint64 { return t.abandoned }

// FinishAllLocked makes every running load final with err, and returns those that
// it made final. After Unlock the caller must End each of them. t.mu must be
// held.
func (t *Table[K, V]) FinishAllLocked(err error) []*Load[K, V] {
	var ended []*Load[K, V]
	for l := range t.LiveLocked() {
		if l.FailLocked(err) {
			ended = append(ended, l)
		}
	}
	return ended
}

// LiveLocked iterates over the loads whose function has not returned, including
// those that no caller waits for any more. They are in the order in which they
// were started, except that the load of a moved flight follows the load it came
// from. t.mu must be held.
func (t *Table[K, V]) LiveLocked() iter.Seq[*Load[K, V]] {
	return func(yield func(*Load[K, V]) bool) {
		if t.running == 0 {
			return // the ring may not exist yet
		}
		for l := t.live.next; l != &t.live && yield(l); l = l.next {
		}
	}
}

// Recursive reports whether a caller with ctx would wait for itself by waiting
// for key: ctx belongs to a load that is running key. within is the innermost Call of ctx;
// each load has one, so most callers need no second look at ctx. Recursive calls ctx,
// which may be the user's code, so the lock must not be held.
func (t *Table[K, V]) Recursive(ctx context.Context, within *lend.Call, key K) bool {
	return within != nil && descends(ctx, t, key)
}

func (l *Load[K, V]) runs(table, key any) bool {
	if t, ok := table.(*Table[K, V]); !ok || t != l.table || l.stop.Err() != nil || l.gathering.Load() {
		return false // another table, a load that has ended, or one that is not running yet
	}
	k := key.(K)
	for _, f := range l.flights {
		if f.Key == k {
			return true
		}
	}
	return false
}

// Values returns the context from which the load's context takes its values.
func (l *Load[K, V]) Values() context.Context { return l.values }

// SetValues replaces that context. It is called on the load's goroutine, before
// the function runs.
func (l *Load[K, V]) SetValues(ctx context.Context) { l.values = ctx }

// SetDeadline sets the hard timeout that the owner will enforce. It is called on
// the load's goroutine, before the function runs.
func (l *Load[K, V]) SetDeadline(t time.Time) { l.deadline = t }
