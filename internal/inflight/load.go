package inflight

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

// Flights returns the load's flights, in the order of the keys. While the load
// gathers, the slice may be read only with the table's lock held.
func (l *Load[K, V]) Flights() []*Flight[K, V] { return l.flights }

// Joined returns how many callers ever joined f. It is final when the load is.
func (f *Flight[K, V]) Joined() int { return int(f.joined) }

// SupersededLocked reports whether a write or an invalidation has detached f from
// the table. The table's lock must be held, or the load must be final.
func (f *Flight[K, V]) SupersededLocked() bool { return f.detached }

// Ending reports whether the load's function has returned and its result is about
// to become final. A caller that arrives now must not receive the result, because
// it is older than the call: wait for Done, then look again.
func (l *Load[K, V]) Ending() bool { return l.ending.Load() }

// JoinersLocked returns how many callers are waiting. The table's lock must be
// held.
func (l *Load[K, V]) JoinersLocked() int { return l.joiners }

// Background reports whether the load was started without callers, only for the
// owner.
func (l *Load[K, V]) Background() bool { return l.background }

// FinalLocked reports whether the load is final. The table's lock must be
// held.
func (l *Load[K, V]) FinalLocked() bool { return l.final }

// PinLocked makes the owner a joiner, until the load is final. The table's
// lock must be held.
func (l *Load[K, V]) PinLocked() { l.pinned = true }

// PinnedLocked reports whether the owner is a joiner. The table's lock must be
// held.
func (l *Load[K, V]) PinnedLocked() bool { return l.pinned }

// Return records that the function has returned. It is called once, on the load's
// goroutine, before CompleteLocked, including after a panic or Goexit.
func (l *Load[K, V]) Return() { l.ending.Store(true) }

// CompleteLocked ends the load on its own goroutine, and reports whether the
// result counts. It does not if the load was final before its function returned
// (abandoned, timed out or closed). If it counts, Value and Err of the flights
// must have been written. After Unlock the caller must End l. The table's lock
// must be held.
func (l *Load[K, V]) CompleteLocked() bool {
	l.returned = true
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = nil, nil // a reference to l's context keeps l alive, but not its neighbors
	l.table.running--
	return l.finishLocked()
}

// ReturnedLocked reports whether the load's function has returned and
// CompleteLocked was called. The table's lock must be held.
func (l *Load[K, V]) ReturnedLocked() bool { return l.returned }

// FailLocked makes the load final with err for every flight, while its function
// still runs. It returns false if the load was final already. If it returns true,
// the caller must End or Expire l after Unlock. The table's lock must be held.
func (l *Load[K, V]) FailLocked(err error) bool {
	if l.final {
		return false
	}
	for _, f := range l.flights {
		f.Err = err
	}
	return l.finishLocked()
}

// finishLocked makes l final and removes its flights from the table. The table's
// lock must be held.
func (l *Load[K, V]) finishLocked() bool {
	if l.final {
		return false
	}
	l.final = true
	l.stopGraceLocked()
	for _, f := range l.flights {
		if !f.detached {
			delete(l.table.flights, f.Key)
		}
	}
	return true
}

// End cancels the context of a final load with cause, which wakes all waiting
// callers. A nil cause means context.Canceled.
func (l *Load[K, V]) End(cause error) {
	l.cancel(cause)
	if cause == ErrAbandoned { //nolint:errorlint // it is never wrapped
		l.gaveUp()
	}
}

// Expire is End for the hard timeout: the Err of the load's context is
// DeadlineExceeded.
func (l *Load[K, V]) Expire(cause error) {
	l.expired.Store(true)
	l.cancel(cause)
	l.gaveUp()
}

func (l *Load[K, V]) gaveUp() {
	if l.Abandoned != nil {
		l.Abandoned.Abandon()
	}
}

// Load returns the load that f belongs to. MoveLocked changes it.
func (f *Flight[K, V]) Load() *Load[K, V] { return f.load.Load() }

// Wait waits until f's load is final or ctx ends, whichever is first; a result
// that is ready wins. If ctx ended, the caller has left the flight and Wait
// returns the cause of ctx.
func (f *Flight[K, V]) Wait(ctx context.Context, grace time.Duration) error {
	if f.moved == nil && either(f.Load().Done(), ctx.Done()) {
		return nil
	}
	if !f.Await(ctx, nil) && f.Leave(grace) {
		return wait.Cause(ctx)
	}
	<-f.Load().Done() // the load is final, so Done is closed or about to be
	return nil
}

// Await waits until f's load is final, ctx ends or timer fires, and reports
// whether the load became final. The caller stays on the flight.
func (f *Flight[K, V]) Await(ctx context.Context, timer <-chan time.Time) bool {
	left, moved := ctx.Done(), f.moved
	if moved == nil && timer == nil {
		return either(f.Load().Done(), left)
	}
	for {
		l := f.Load()
		select {
		case <-l.Done():
			if l == f.Load() {
				return true
			}
		case <-moved:
			moved = nil // a flight moves at most once
		case <-left:
			return false
		case <-timer:
			return false
		}
	}
}

// either waits until done or left is closed, and reports whether it was done. A select of
// two has a small frame: a caller on a new goroutine then needs no larger stack, whose
// growth took a sixth of the time of a thousand callers.
func either(done, left <-chan struct{}) bool {
	if left == nil {
		<-done // cheaper than a select
		return true
	}
	select {
	case <-done:
		return true
	case <-left:
		return false
	}
}

// Leave removes one caller from f. It returns false if the load was already
// final, so that the result is available.
//
// The last caller to leave decides the fate of the load. Without grace, it also
// removes the flights from the table under the same lock. Otherwise a new caller
// could join a load that is already lost:
//
//	A: ctx ends; A is the last joiner and cancels the load
//	B: finds the flight in the table and joins it
//	B: receives A's cancellation, though B's own ctx is fine
func (f *Flight[K, V]) Leave(grace time.Duration) bool {
	t := f.Load().table
	t.mu.Lock()
	left, lost := f.LeaveLocked(grace)
	t.mu.Unlock()
	if lost != nil {
		lost.End(ErrAbandoned)
	}
	return left
}

// LeaveLocked is Leave with the table's lock held. If lost is not nil, the caller
// must End it with ErrAbandoned after Unlock.
func (f *Flight[K, V]) LeaveLocked(grace time.Duration) (left bool, lost *Load[K, V]) {
	l := f.Load()
	if l.final {
		return false, nil
	}
	l.joiners--
	f.waiting--
	if l.joiners > 0 || l.pinned || grace < 0 {
		if grace == 0 {
			f.forgoLocked()
		}
		return true, nil
	}
	if l.DesertedLocked(grace) {
		lost = l
	}
	return true, lost
}

// DesertedLocked decides the fate of l if no caller waits for it: after the last one has
// left, and after MoveLocked, which can leave either load without callers. If it returns
// true, the caller must End l with ErrAbandoned after Unlock. The table's lock must be
// held.
func (l *Load[K, V]) DesertedLocked(grace time.Duration) bool {
	switch {
	case l.final || l.joiners > 0 || l.pinned || grace < 0:
		return false
	case grace > 0:
		l.stopGraceLocked()
		l.departures++
		n := l.departures
		l.grace = time.AfterFunc(grace, func() { l.abandon(n) })
		return false
	}
	return l.abandonLocked()
}

// abandon cancels l unless a caller has joined it since its nth departure. If
// that caller has left again, a later abandon is due.
func (l *Load[K, V]) abandon(n uint64) {
	l.table.mu.Lock()
	lost := l.joiners == 0 && !l.pinned && l.departures == n && l.abandonLocked()
	l.table.mu.Unlock()
	if lost {
		l.End(ErrAbandoned)
	}
}

// stopGraceLocked stops the timer of the last departure, which would keep l in
// memory until it fires. The table's lock must be held.
func (l *Load[K, V]) stopGraceLocked() {
	if l.grace != nil {
		l.grace.Stop()
	}
}

// abandonLocked makes l final with ErrAbandoned. The table's lock must be held.
func (l *Load[K, V]) abandonLocked() bool {
	if !l.FailLocked(ErrAbandoned) {
		return false
	}
	l.table.abandoned++
	return true
}
