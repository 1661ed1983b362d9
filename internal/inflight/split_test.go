package inflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A caller that waits for a moved flight waits for its new load: the old one may
// end, and the caller leaves the new one.
func TestMovedFlightTakesItsCallersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := Table[int, int]{Splits: true}
		table.Lock()
		l := table.StartManyLocked(context.Background(), []int{1, 2}, false)
		f, g := l.Flights()[0], l.Flights()[1]
		f.JoinLocked()
		table.Unlock()
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		left, stayed, other := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { left <- f.Wait(short, 0) }()
		go func() { stayed <- f.Wait(t.Context(), 0) }()
		go func() { other <- g.Wait(t.Context(), 0) }()
		time.Sleep(time.Second)

		table.Lock()
		l.Forced = true
		own := f.MoveLocked()
		if !own.Forced {
			t.Error("the moved load is not Forced")
		}
		if n, m := l.JoinersLocked(), own.JoinersLocked(); n != 1 || m != 2 {
			t.Errorf("%d and %d joiners; want 1 left and 2 moved", n, m)
		}
		if table.FindLocked(1) != f || table.RunningLocked() != 2 {
			t.Error("the moved flight cannot be joined, or its load is not running")
		}
		table.Unlock()
		finish(l, 7)
		if err := <-other; err != nil || g.Value != 7 {
			t.Errorf("the other flight: %d, %v; want 7", g.Value, err)
		}
		time.Sleep(2 * time.Second)
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v; want the deadline", err)
		}
		select {
		case <-stayed:
			t.Fatal("a caller of the moved flight was woken by the old load's end")
		default:
		}
		finish(own, 9)
		if err := <-stayed; err != nil || f.Value != 9 {
			t.Errorf("the moved flight: %d, %v; want 9", f.Value, err)
		}
		table.Lock()
		defer table.Unlock()
		table.check(t)
	})
}

// The last caller to leave a moved flight abandons the flight's load, and no
// other.
func TestMovedFlightIsAbandonedByItself(t *testing.T) {
	table := Table[int, int]{Splits: true}
	table.Lock()
	l := table.StartManyLocked(context.Background(), []int{1, 2}, false)
	f := l.Flights()[0]
	own := f.MoveLocked()
	table.Unlock()
	if !f.Leave(0) || context.Cause(own) != ErrAbandoned {
		t.Errorf("the moved load ended with %v; want ErrAbandoned", context.Cause(own))
	}
	if l.Err() != nil {
		t.Errorf("the other load ended with %v", l.Err())
	}
}

// A flight that is moved takes its callers along. Either load may have none then, as
// after the last one has left: at once, after a grace, or never, it is abandoned.
func TestMoveCanLeaveALoadWithoutCallers(t *testing.T) {
	for _, waitsForMoved := range []bool{false, true} {
		for grace, want := range map[time.Duration]error{0: ErrAbandoned, time.Second: ErrAbandoned, Never: nil} {
			synctest.Test(t, func(t *testing.T) {
				table := Table[int, int]{Splits: true}
				table.Lock()
				l := table.StartManyLocked(context.Background(), []int{1, 2}, false)
				f, g := l.Flights()[0], l.Flights()[1]
				_, lost := map[bool]*Flight[int, int]{false: f, true: g}[waitsForMoved].LeaveLocked(0)
				if lost != nil {
					t.Fatal("the load is abandoned, though a caller waits")
				}
				own := f.MoveLocked()
				wanted, deserted := l, own
				if waitsForMoved {
					wanted, deserted = own, l
				}
				if wanted.DesertedLocked(grace) {
					t.Error("a load with a caller is abandoned")
				}
				if deserted.DesertedLocked(grace) {
					deserted.End(ErrAbandoned)
				}
				table.Unlock()
				if deserted.Err() != nil && grace != 0 {
					t.Errorf("grace %v: abandoned at once", grace)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := context.Cause(deserted); got != want || wanted.Err() != nil {
					t.Errorf("moved %v, grace %v: the load without callers ended with %v, the other with %v; want %v, nil", !waitsForMoved, grace, got, wanted.Err(), want)
				}
				if n := table.AbandonedLocked(); n != 1 && want != nil {
					t.Errorf("%d abandoned; want 1", n)
				}
			})
		}
	}
}
