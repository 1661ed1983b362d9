package flight

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// There is a moment between the return of a function and the end of its flight. No
// caller outside the package can prolong it, so this test is inside the package.
func TestF4EndingFlightIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, int]
		g.table.Lock()
		l := g.table.StartLocked(t.Context(), "k", false)
		g.table.Unlock()
		l.Return()

		start := time.Now()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if v, err := g.Do(hasty, "k", nil); v != 0 || err != context.DeadlineExceeded || time.Since(start) != time.Second {
			t.Errorf("Do = %d, %v after %v; want DeadlineExceeded after 1s", v, err, time.Since(start))
		}
		fresh := g.DoChan(t.Context(), "other", func(context.Context) (int, error) { return 0, nil })
		<-fresh // another key is not held up

		late := make(chan Result[int], 1)
		go func() {
			late <- g.DoResult(t.Context(), "k", func(context.Context) (int, error) { return 2, nil })
		}()
		synctest.Wait()
		g.table.Lock()
		if n := l.JoinersLocked(); n != 1 {
			t.Errorf("%d joiners; want 1, because the result is older than the second call", n)
		}
		g.table.Unlock()

		g.finish(l, 1, nil)
		want := Result[int]{Value: 2, Joiners: 1}
		if r := <-late; r != want {
			t.Errorf("late caller: %+v; want %+v", r, want)
		}
		if f := l.Flights()[0]; f.Value != 1 || f.Joined() != 1 {
			t.Errorf("settled flight: %d, %d callers; want 1, 1", f.Value, f.Joined())
		}
	})
}

// The test holds the lock while a function returns, so that the result cannot be
// stored. The flight must be marked as ending anyway.
func TestF4ReturnIsNotedBeforeTheLock(t *testing.T) {
	var g Group[string, int]
	release := make(chan struct{})
	result := g.DoChan(t.Context(), "k", func(context.Context) (int, error) {
		<-release
		return 1, nil
	})
	g.table.Lock()
	f := g.table.FindLocked("k")
	if f.Load().Ending() {
		t.Error("Ending() while the function runs")
	}
	close(release)
	for patience := time.Now().Add(30 * time.Second); !f.Load().Ending(); runtime.Gosched() {
		if time.Now().After(patience) {
			t.Error("not Ending() although the function has returned")
			break
		}
	}
	g.table.Unlock()
	<-result
}
