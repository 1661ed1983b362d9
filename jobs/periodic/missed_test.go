package periodic_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/jobs/periodic"
)

// P3: after an outage of three ticks, each rule submits its own of them, and the others
// are reported as missed.
func TestP3_TheRulesForMissedTicks(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rule    periodic.Missed
		catchUp int
		want    []int // hours after the start whose ticks were missed and still have a job
		missed  int
	}{
		{"latest", periodic.MissedLatest, 0, []int{3}, 2},
		{"skip", periodic.MissedSkip, 0, nil, 3},
		{"all", periodic.MissedAll, 0, []int{1, 2, 3}, 0},
		{"all, with a bound", periodic.MissedAll, 2, []int{2, 3}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now() // on the hour, so that @every 1h has its ticks at whole hours from here
				v, seen := newFakeView(), &recorder{}
				var out atomic.Bool
				v.before = func(string) error {
					if out.Load() {
						return errors.New("unreachable")
					}
					return nil
				}
				s := run(t, v, seen, periodic.Schedule{Name: "a", Spec: "@every 1h", Missed: tt.rule, CatchUp: tt.catchUp})
				defer stop(t, s)
				time.Sleep(time.Minute)
				out.Store(true)
				time.Sleep(3*time.Hour + 29*time.Minute)
				out.Store(false)
				time.Sleep(29 * time.Minute)
				synctest.Wait()

				got := v.of(t, "a")
				if len(got) != len(tt.want) {
					t.Errorf("jobs of %d ticks; want %d: %v", len(got), len(tt.want), got)
				}
				for _, h := range tt.want {
					if at := start.Add(time.Duration(h) * time.Hour).UTC(); len(got[at]) != 1 {
						t.Errorf("the tick at %v has %d jobs; want 1", at, len(got[at]))
					}
				}
				missed := 0
				seen.mu.Lock()
				for _, e := range seen.all {
					if e.Kind == periodic.EventMissed {
						missed += e.Count
					}
				}
				seen.mu.Unlock()
				if missed != tt.missed {
					t.Errorf("%d ticks were reported as missed; want %d", missed, tt.missed)
				}
			})
		})
	}
}
