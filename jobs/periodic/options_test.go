package periodic_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/jobs/periodic"
)

// P4: all faults of the options and the schedules are reported at once.
func TestP4_AllFaultsAtOnce(t *testing.T) {
	good := periodic.JobOf("q", nothing)
	err := periodic.Faults([]periodic.Schedule{
		{Name: "a", Spec: "0 2 30 2 *", Job: good},           // 30 February
		{Name: "b", Spec: "61 * * * *", Job: good},           // no such minute
		{Name: "c", Spec: "@every 1s", Job: good},            // below MinInterval
		{Name: "d", Spec: "@daily", Zone: "Mars", Job: good}, // no such zone
		{Name: "no name", Spec: "@daily", Job: good},
		{Name: "f", Spec: "@daily"},                                                       // no job
		{Name: "g", Spec: "@daily", Job: good, CatchUp: 3},                                // without MissedAll
		{Name: "h", Spec: "@daily", Job: good, Missed: periodic.MissedAll, CatchUp: 5000}, // above the bound
		{Name: "i", Spec: "@daily", Job: good, Grace: time.Millisecond},
		{Name: "i", Spec: "@daily", Job: good},
	}, periodic.Options{})
	if err == nil {
		t.Fatal("no faults; want one for each schedule")
	}
	for _, want := range []string{
		`schedule "a": `, `schedule "b": `, `schedule "c": `, `schedule "d": `, `schedule "no name": `,
		`schedule "f": `, `schedule "g": `, `schedule "h": `, `schedule "i": `, "different from the names",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
	if !errors.As(err, new(*periodic.OptionError)) {
		t.Errorf("%T is no *OptionError", err)
	}
}

func newFakeView() *view { return &view{fake: newFake(time.Hour)} }

// P6: Close ends all schedules, waits, can be called again, and nothing is submitted
// after it. The bubble fails if a goroutine is left.
func TestP6_CloseEndsTheSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeView()
		s := run(t, v, nil, periodic.Schedule{Name: "a", Spec: "@every 1m", Job: periodic.JobOf("q", nothing)})
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		before := len(v.of(t, "a"))
		if before < 4 {
			t.Fatalf("%d ticks in five minutes; want 4 or 5", before)
		}
		for range 2 {
			if err := s.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		}
		time.Sleep(time.Hour)
		if after := len(v.of(t, "a")); after != before {
			t.Errorf("%d ticks after Close; want the %d before", after, before)
		}
		if all := s.Stats(); len(all) != 1 || all[0].Name != "a" {
			t.Errorf("Stats after Close = %+v; want the schedule", all)
		}
	})
}

// P6: an input function that panics is reported and called again; other schedules
// continue.
func TestP6_APanicStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, seen, calls := newFakeView(), &recorder{}, 0
		bad := func(time.Time) (any, error) {
			if calls++; calls == 1 {
				panic("the input")
			}
			return nil, nil
		}
		s := run(t, v, seen,
			periodic.Schedule{Name: "bad", Spec: "@every 1h", Job: periodic.JobOf("q", bad)},
			periodic.Schedule{Name: "good", Spec: "@every 1h", Job: periodic.JobOf("q", nothing)},
		)
		defer stop(t, s)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if n := seen.count(periodic.EventTrouble); n != 1 {
			t.Errorf("%d reports of trouble; want 1", n)
		}
		for _, name := range []string{"bad", "good"} {
			if n := len(v.of(t, name)); n != 1 {
				t.Errorf("schedule %q has %d jobs; want 1", name, n)
			}
		}
	})
}

// P6: a store that refuses jobs is tried again until it accepts them.
func TestP6_AFullQueueIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, seen := newFakeView(), &recorder{}
		var full atomic.Bool
		full.Store(true)
		v.before = func(op string) error {
			if full.Load() && op == "claim" {
				return errors.New("the queue is full")
			}
			return nil
		}
		s := run(t, v, seen, periodic.Schedule{Name: "a", Spec: "@every 1h", Grace: 30 * time.Minute, Job: periodic.JobOf("q", nothing)})
		defer stop(t, s)
		time.Sleep(time.Hour + 5*time.Minute)
		synctest.Wait()
		if seen.count(periodic.EventTrouble) == 0 || len(v.of(t, "a")) != 0 {
			t.Fatalf("%d reports, %d jobs; want reports, and no job", seen.count(periodic.EventTrouble), len(v.of(t, "a")))
		}
		full.Store(false)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := len(v.of(t, "a")); n != 1 {
			t.Errorf("%d jobs once the queue has room; want 1", n)
		}
	})
}
