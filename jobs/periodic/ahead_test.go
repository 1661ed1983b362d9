package periodic_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/jobs/periodic"
)

// P5: a clock that was ahead has submitted ticks of the future. Once it is right, that is
// reported as ErrAhead, none of these ticks has a second job, and later ones have their
// jobs.
func TestP5_ALastTickInTheFutureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, seen := newFakeView(), &recorder{}
		v.skew = 3 * time.Hour
		schedule := periodic.Schedule{Name: "a", Spec: "@every 1h"}
		fast := run(t, v, nil, schedule)
		time.Sleep(2*time.Hour + time.Minute) // by its clock, the hours 4 and 5
		stop(t, fast)
		start := time.Now().UTC().Truncate(time.Hour) // hour 2
		early := v.of(t, "a")
		if len(early) != 2 {
			t.Fatalf("jobs of %v; want two ticks", early)
		}

		right := run(t, &view{fake: v.fake}, seen, schedule)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := v.of(t, "a"); len(got) != 2 {
			t.Errorf("jobs of %v; want no other before the last tick", got)
		}
		if status := right.Stats()[0]; !errors.Is(status.Err, periodic.ErrAhead) {
			t.Errorf("Stats = %+v; want ErrAhead", status)
		}
		seen.mu.Lock()
		for _, e := range seen.all {
			if e.Kind != periodic.EventTrouble || !errors.Is(e.Err, periodic.ErrAhead) || e.RetryIn <= 0 || e.RetryIn > 30*time.Second {
				t.Errorf("event %+v; want only trouble with ErrAhead, retried within 30 s", e)
			}
		}
		n := len(seen.all)
		seen.mu.Unlock()
		if n == 0 {
			t.Error("nothing was reported")
		}

		time.Sleep(3 * time.Hour)
		synctest.Wait()
		got := v.of(t, "a")
		for h := 2; h <= 5; h++ {
			if at := got[start.Add(time.Duration(h)*time.Hour)]; len(at) != 1 {
				t.Errorf("the tick of hour %d has jobs at %v; want one", h, at)
			}
		}
		if status := right.Stats()[0]; status.Err != nil || len(got) != 4 {
			t.Errorf("Stats = %+v, jobs of %v; want no error, and the next two ticks", status, got)
		}
		stop(t, right)
	})
}

// P1: during a deployment, two instances have different definitions of a schedule. Each
// tick of either has one job. An instance that returns with the older definition repeats
// nothing, and catches up with nothing that the other has decided.
func TestP1_TwoDefinitionsOfOneSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC() // on the hour
		v := newFakeView()
		hourly := periodic.Schedule{Name: "a", Spec: "@every 1h", Missed: periodic.MissedAll}
		half := periodic.Schedule{Name: "a", Spec: "30 * * * *", Missed: periodic.MissedAll}
		want := func(hours, halves []int) {
			t.Helper()
			synctest.Wait()
			got := v.of(t, "a")
			for _, h := range hours {
				if at := got[start.Add(time.Duration(h)*time.Hour)]; len(at) != 1 {
					t.Errorf("the tick at %d:00 has jobs at %v; want one", h, at)
				}
			}
			for _, h := range halves {
				if at := got[start.Add(time.Duration(h)*time.Hour+30*time.Minute)]; len(at) != 1 {
					t.Errorf("the tick at %d:30 has jobs at %v; want one", h, at)
				}
			}
			if len(got) != len(hours)+len(halves) {
				t.Errorf("jobs of %v; want %d ticks", got, len(hours)+len(halves))
			}
		}
		older := run(t, v, nil, hourly)
		time.Sleep(time.Minute)
		newer := run(t, &view{fake: v.fake}, nil, half)
		time.Sleep(2 * time.Hour)
		want([]int{1, 2}, []int{0, 1})
		stop(t, older)
		time.Sleep(2 * time.Hour) // until 4:01
		want([]int{1, 2}, []int{0, 1, 2, 3})
		older = run(t, v, nil, hourly)
		synctest.Wait()
		time.Sleep(time.Hour) // until 5:01
		stop(t, older)
		stop(t, newer)
		got := v.of(t, "a")
		if at := got[start.Add(3*time.Hour)]; at != nil {
			t.Errorf("the tick at 3:00, before the last one decided, has jobs at %v; want none", at)
		}
		for tick, at := range got {
			if len(at) != 1 {
				t.Errorf("the tick %v has jobs at %v; want one", tick, at)
			}
		}
		if at := got[start.Add(5*time.Hour)]; len(at) != 1 {
			t.Errorf("the tick at 5:00 has jobs at %v; want one", at)
		}
	})
}
