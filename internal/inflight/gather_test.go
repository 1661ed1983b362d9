package inflight

import (
	"context"
	"testing"

	"github.com/weir-go/weir/internal/lend"
)

// When the last caller of a key that was detached during gathering leaves, the
// old flight is removed from the load, and the new one of the same key stays.
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

// A gathering load is not running yet, so a caller with its context does not wait
// for itself. Once the load is closed, the added keys count.
func TestF9RecursiveOfALoadThatGathers(t *testing.T) {
	var table Table[int, int]
	table.Lock()
	l := table.StartOpenLocked(context.Background(), 1, false)
	l.AddLocked(2, true)
	table.Unlock()
	if table.Recursive(l, lend.From(l), 2) {
		t.Error("Recursive(2) = true while the load gathers; want false")
	}
	table.Lock()
	l.CloseLocked()
	table.Unlock()
	if !table.Recursive(l, lend.From(l), 1) || !table.Recursive(l, lend.From(l), 2) || table.Recursive(l, lend.From(l), 3) {
		t.Error("Recursive(1), Recursive(2), Recursive(3) are not true, true, false")
	}
}
