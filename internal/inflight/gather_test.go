package inflight

import (
	"context"
	"testing"
)

// The last caller of a key that was detached while it was gathered takes the old
// flight out of the load, and leaves the new one of the same key where it is.
func TestLeaveOfADetachedFlightThatGathers(t *testing.T) {
	var table Table[int, int]
	table.Lock()
	l := table.StartOpenLocked(context.Background(), 1, false)
	old := l.Flights()[0]
	table.DetachLocked(1)
	next := l.AddLocked(1, true)
	table.Unlock()
	if !old.Leave(0) {
		t.Error("Leave = false; want true")
	}
	table.Lock()
	defer table.Unlock()
	if f := table.FindLocked(1); f != next {
		t.Errorf("FindLocked(1) = %p; want the new flight, %p", f, next)
	}
	if fs := l.Flights(); len(fs) != 1 || fs[0] != next || l.FinalLocked() {
		t.Errorf("%d flights, final %v; want the new flight alone, not final", len(fs), l.FinalLocked())
	}
	table.check(t)
}

// A load that gathers runs nothing yet, so nobody who has its context waits for
// himself; once it is closed the keys added to it count.
func TestF9RecursiveOfALoadThatGathers(t *testing.T) {
	var table Table[int, int]
	table.Lock()
	l := table.StartOpenLocked(context.Background(), 1, false)
	l.AddLocked(2, true)
	table.Unlock()
	if table.Recursive(l, 2) {
		t.Error("Recursive(2) = true while the load gathers; want false")
	}
	table.Lock()
	l.CloseLocked()
	table.Unlock()
	if !table.Recursive(l, 1) || !table.Recursive(l, 2) || table.Recursive(l, 3) {
		t.Error("Recursive(1, 2, 3) is not true, true, false")
	}
}
