package inflight

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// start starts a load for keys, with the caller as a joiner of each.
func start(t *testing.T, table *Table[int, int], pinned bool, keys ...int) *Load[int, int] {
	table.Lock()
	defer table.Unlock()
	return table.StartManyLocked(t.Context(), keys, pinned)
}

// length returns the number of flights that can be joined.
func length(table *Table[int, int]) int {
	table.Lock()
	defer table.Unlock()
	return table.LenLocked()
}

func TestWaitResultThatIsThereWins(t *testing.T) {
	for range 64 { // a select between the two would be right half of the time
		var table Table[int, int]
		l := start(t, &table, false, 1)
		ctx, cancel := context.WithCancel(t.Context())
		finish(l, 42)
		cancel()
		if err := l.Flights()[0].Wait(ctx, 0); err != nil {
			t.Fatalf("Wait = %v; want nil", err)
		}
	}
}

// The load is final but its context is not canceled yet: the caller waits for
// that short moment.
func TestWaitBetweenFinalAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[int, int]
		l := start(t, &table, false, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		table.Lock()
		l.Flights()[0].Value = 42
		l.Return()
		l.CompleteLocked()
		table.Unlock()
		waited := make(chan error)
		go func() { waited <- l.Flights()[0].Wait(ctx, 0) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("Wait = %v before End", err)
		default:
		}
		l.End(nil)
		if err := <-waited; err != nil {
			t.Errorf("Wait = %v; want nil", err)
		}
	})
}

func TestWaitOnAContextThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[int, int]
		l := start(t, &table, false, 1)
		time.AfterFunc(time.Second, func() { finish(l, 42) })
		if err := l.Flights()[0].Wait(context.Background(), 0); err != nil || l.Flights()[0].Value != 42 {
			t.Errorf("Wait = %v, value %d; want nil, 42", err, l.Flights()[0].Value)
		}
	})
}

func TestAbandonedCountsWhatAGraceEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[int, int]
		for key := range 3 {
			l := start(t, &table, false, key)
			l.Flights()[0].Leave(time.Second)
			if key == 0 { // it ends before the grace is over
				finish(l, 42)
			}
		}
		time.Sleep(time.Minute)
		table.Lock()
		defer table.Unlock()
		if n := table.AbandonedLocked(); n != 2 || table.LenLocked() != 0 {
			t.Errorf("Abandoned, Len = %d, %d; want 2, 0", n, table.LenLocked())
		}
	})
}

// The departure of the last caller and the end of the load are one critical
// section. To look for a gap, this test makes a leaving caller and a checking one
// queue for the lock: a mutex with a waiter of more than a millisecond is passed
// to its waiters in order. If they arrive in another order, the test proves
// nothing, but does not fail.
func TestF4AbandonmentIsOneStep(t *testing.T) {
	spin := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			runtime.Gosched()
		}
	}
	for range 8 {
		var table Table[int, int]
		var wg sync.WaitGroup
		l := start(t, &table, false, 1)
		table.Lock()
		wg.Go(func() { l.Flights()[0].Leave(0) })
		spin(ms)
		wg.Go(func() {
			table.Lock()
			defer table.Unlock()
			table.check(t)
			table.checkWaitedFor(t)
		})
		spin(2 * ms)
		table.Unlock()
		table.Lock() // before the first waiter is awake, which then insists on its turn
		spin(ms)
		table.Unlock()
		wg.Wait()
		if context.Cause(l) != ErrAbandoned {
			t.Errorf("cause = %v; want ErrAbandoned", context.Cause(l))
		}
		finish(l, 42)
	}
}

// A load of several keys is canceled when the last joiner of the last key has
// left. It then removes all its flights from the table at once.
func TestLeaveOfSeveralKeys(t *testing.T) {
	var table Table[int, int]
	l := start(t, &table, false, 1, 2, 3)
	for i, f := range l.Flights() {
		if l.Err() != nil || length(&table) != 3 {
			t.Errorf("after %d left: %v, %d flights; want nil, 3", i, l.Err(), length(&table))
		}
		if !f.Leave(0) {
			t.Errorf("Leave(%d) = false; want true", f.Key)
		}
	}
	if context.Cause(l) != ErrAbandoned || length(&table) != 0 {
		t.Errorf("after all left: %v, %d flights; want ErrAbandoned, 0", context.Cause(l), length(&table))
	}
	if finish(l, 42) || l.Flights()[0].Value != 0 {
		t.Error("the result of an abandoned load counts")
	}
}

func TestPinnedLoadIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[int, int]
		for _, grace := range []time.Duration{0, time.Second} {
			l := start(t, &table, true, 1)
			f := l.Flights()[0]
			table.Lock()
			f.JoinLocked()
			table.Unlock()
			if f.Joined() != 1 || !f.Leave(grace) {
				t.Errorf("Joined = %d; want 1, then a joiner that can leave", f.Joined())
			}
			time.Sleep(time.Minute)
			if l.Err() != nil {
				t.Errorf("grace %v: %v; want nil", grace, context.Cause(l))
			}
			if !finish(l, 42) || f.Value != 42 {
				t.Errorf("the result of a pinned load does not count")
			}
		}
	})
}

func TestPinDuringTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[int, int]
		l := start(t, &table, false, 1)
		l.Flights()[0].Leave(time.Second)
		time.Sleep(time.Second - 1)
		table.Lock()
		l.PinLocked()
		table.Unlock()
		time.Sleep(time.Minute)
		if l.Err() != nil || !finish(l, 42) {
			t.Errorf("context: %v; want a load that continues", context.Cause(l))
		}
	})
}

func TestFinishAllEndsEveryLoadOnce(t *testing.T) {
	var table Table[int, int]
	table.Lock()
	if ended := table.FinishAllLocked(errFailed); ended != nil {
		t.Errorf("FinishAllLocked of an empty table = %v; want none", ended)
	}
	table.Unlock()

	abandoned := start(t, &table, false, 1)
	abandoned.Flights()[0].Leave(0)
	forgotten := start(t, &table, false, 1)
	table.Lock()
	table.DetachLocked(1)
	table.Unlock()
	open := start(t, &table, false, 1, 2)

	table.Lock()
	ended := table.FinishAllLocked(errFailed)
	again := table.FinishAllLocked(errFailed)
	table.check(t)
	if n := table.RunningLocked(); n != 3 || table.LenLocked() != 0 {
		t.Errorf("Running, Len = %d, %d; want 3, 0", n, table.LenLocked())
	}
	table.Unlock()
	if len(ended) != 2 || ended[0] != forgotten || ended[1] != open || again != nil {
		t.Errorf("FinishAllLocked = %v, then %v; want the forgotten and the open load, then none", ended, again)
	}
	for _, l := range ended {
		l.End(errFailed)
	}
	for _, l := range []*Load[int, int]{abandoned, forgotten, open} {
		if finish(l, 42) {
			t.Errorf("the result of load %v counts", l.keys())
		}
		for _, f := range l.Flights() {
			if want := context.Cause(l); f.Err != want || f.Value != 0 {
				t.Errorf("flight %d: %d, %v; want 0, %v", f.Key, f.Value, f.Err, want)
			}
		}
	}
	table.Lock()
	defer table.Unlock()
	table.check(t)
	if n := table.RunningLocked(); n != 0 {
		t.Errorf("Running = %d; want 0", n)
	}
}

func TestExpireSaysDeadlineExceeded(t *testing.T) {
	var table Table[int, int]
	l := start(t, &table, false, 1)
	deadline := time.Now().Add(time.Hour)
	if _, ok := l.Deadline(); ok {
		t.Error("Deadline before SetDeadline")
	}
	l.SetDeadline(deadline)
	child, cancel := context.WithTimeout(l, 2*time.Hour)
	defer cancel()
	if d, ok := child.Deadline(); !ok || !d.Equal(deadline) {
		t.Errorf("Deadline of a derived context = %v, %v; want %v", d, ok, deadline)
	}
	table.Lock()
	l.FailLocked(errFailed)
	table.Unlock()
	if l.Err() != nil {
		t.Errorf("Err = %v before Expire; want nil", l.Err())
	}
	l.Expire(errFailed)
	if l.Err() != context.DeadlineExceeded || context.Cause(l) != errFailed {
		t.Errorf("Err, Cause = %v, %v; want DeadlineExceeded, %v", l.Err(), context.Cause(l), errFailed)
	}
	if child.Err() == nil || context.Cause(child) != errFailed {
		t.Errorf("derived: %v, %v; want an error, %v", child.Err(), context.Cause(child), errFailed)
	}
	finish(l, 42)
}

func TestSetValuesChangesNothingButValues(t *testing.T) {
	type name struct{}
	var table Table[int, int]
	l := start(t, &table, false, 1)
	was := l.Values()
	other, cancel := context.WithCancel(context.WithValue(was, name{}, "set"))
	if was != t.Context() || l.Value(name{}) != nil {
		t.Errorf("Values, Value = %v, %v; want the caller's context, nil", was, l.Value(name{}))
	}
	l.SetValues(other)
	child, stop := context.WithCancel(l)
	defer stop()
	if l.Value(name{}) != "set" || child.Value(name{}) != "set" {
		t.Errorf("Value = %v, derived %v; want set", l.Value(name{}), child.Value(name{}))
	}
	if cancel(); l.Err() != nil || child.Err() != nil || context.Cause(l) != nil {
		t.Errorf("Err = %v, derived %v; want nil", l.Err(), child.Err())
	}
	if !table.Recursive(child, lend.From(child), 1) {
		t.Error("Recursive = false; want true")
	}
	if finish(l, 42); child.Err() != context.Canceled {
		t.Errorf("derived Err = %v after the load; want Canceled", child.Err())
	}
}

func TestRecursiveKnowsAllKeysOfALoad(t *testing.T) {
	var table, other Table[int, int]
	outer := start(t, &table, false, 1, 2)
	inner := func() *Load[int, int] {
		table.Lock()
		defer table.Unlock()
		return table.StartLocked(outer, 3, false)
	}()
	for key, want := range []bool{false, true, true, true, false} {
		if got := table.Recursive(inner, lend.From(inner), key); got != want {
			t.Errorf("Recursive(inner, %d) = %v; want %v", key, got, want)
		}
		if other.Recursive(inner, lend.From(inner), key) || table.Recursive(t.Context(), lend.From(t.Context()), key) {
			t.Errorf("Recursive(%d) of another table or context; want false", key)
		}
	}
	finish(outer, 42) // a load that has ended waits for nothing
	if table.Recursive(inner, lend.From(inner), 1) || !table.Recursive(inner, lend.From(inner), 3) {
		t.Error("after the outer load: Recursive(1), Recursive(3) are not false, true")
	}
	finish(inner, 42)
}
