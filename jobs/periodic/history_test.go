package periodic_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/jobs/periodic"
)

// P1 and P2: instances stop, start, pause for an hour within any operation, have clocks
// that differ, and lose requests and responses, while records are forgotten after a
// minute. No tick has two jobs; and each has one, since the rule is to submit all.
func TestP1_HistoriesOfAFleet(t *testing.T) {
	for seed := range histories.Seeds(t, 10, 60) {
		synctest.Test(t, func(t *testing.T) { playHistory(t, seed, true) })
	}
}

// P3: as before, with the rules that skip ticks, and without lost responses, so that
// each event is seen. Each tick has one job, or is reported as missed once.
func TestP3_HistoriesOfAFleetThatSkips(t *testing.T) {
	for seed := range histories.Seeds(t, 10, 40) {
		synctest.Test(t, func(t *testing.T) { playHistory(t, seed, false) })
	}
}

const historyHours = 6

func playHistory(t *testing.T, seed uint64, all bool) {
	r := rand.New(rand.NewPCG(seed, 7))
	store, seen := newFake(time.Minute), &recorder{}
	schedules := []periodic.Schedule{
		{Name: "often", Spec: "@every 30s", Job: periodic.JobOf("q", nothing)},
		{Name: "seldom", Spec: "17 * * * *", Job: periodic.JobOf("q", nothing)},
	}
	for i := range schedules {
		switch {
		case all:
			schedules[i].Missed, schedules[i].CatchUp = periodic.MissedAll, periodic.MaxCatchUp
		case seed%2 == 0:
			schedules[i].Missed = periodic.MissedSkip
		}
	}
	start := time.Now()
	views := make([]*view, 4)
	for i := range views {
		views[i] = troubled(store, rand.New(rand.NewPCG(seed, uint64(i))), all)
	}
	first := run(t, &view{fake: store}, seen, schedules...) // the schedules are known from the start
	synctest.Wait()
	die(first)
	running := make([]*periodic.Scheduler, len(views))
	for time.Since(start) < historyHours*time.Hour {
		i := r.IntN(len(views))
		if running[i] == nil {
			running[i] = run(t, views[i], seen, schedules...)
		} else if r.IntN(3) == 0 {
			die(running[i])
			running[i] = nil
		}
		time.Sleep(rand.N(10 * time.Minute))
	}
	end := time.Now()
	run(t, &view{fake: store}, seen, schedules...) // one without trouble
	time.Sleep(2 * time.Hour)                      // and everyone has woken
	for _, s := range schedules {
		checkHistory(t, seed, store, seen, s, start, end)
	}
}

// troubled returns a view with an own clock, whose operations take a moment or an hour,
// and fail before or after they have taken effect.
func troubled(store *fake, r *rand.Rand, loses bool) *view {
	v := &view{fake: store, skew: time.Duration(r.IntN(9)-4) * time.Second}
	begin := time.Now()
	trouble := func(string) error {
		store.mu.Lock() // r is used by several goroutines
		delay, fails := time.Duration(r.IntN(int(20*time.Millisecond))), r.IntN(20) == 0
		if r.IntN(150) == 0 {
			delay = time.Duration(r.Int64N(int64(time.Hour)))
		}
		store.mu.Unlock()
		time.Sleep(delay)
		if fails && time.Since(begin) < historyHours*time.Hour {
			return errLost
		}
		return nil
	}
	v.before = trouble
	if loses {
		v.after = trouble
	}
	return v
}

func checkHistory(t *testing.T, seed uint64, store *fake, seen *recorder, s periodic.Schedule, start, end time.Time) {
	t.Helper()
	accepted := store.of(t, s.Name)
	missed := map[time.Time]int{}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, e := range seen.all {
		if e.Schedule == s.Name && e.Kind == periodic.EventMissed {
			n := 0
			for _, tick := range between(t, s, e.First.Add(-1), e.Tick) {
				missed[tick]++
				n++
			}
			if n != e.Count {
				t.Errorf("seed %d: %s: %d ticks from %v to %v missed; there are %d", seed, s.Name, e.Count, e.First, e.Tick, n)
			}
		}
	}
	for tick, at := range accepted {
		if len(at) > 1 {
			t.Errorf("seed %d: %s: the tick %v has %d jobs, at %v; want one", seed, s.Name, tick, len(at), at)
		}
		if early := tick.Sub(at[0]); early > 5*time.Second {
			t.Errorf("seed %d: %s: the tick %v has a job %v before it", seed, s.Name, tick, early)
		}
	}
	jobs, skipped := 0, 0
	for _, tick := range between(t, s, start, end) {
		jobs, skipped = jobs+len(accepted[tick]), skipped+missed[tick]
		if n := len(accepted[tick]) + missed[tick]; n != 1 {
			t.Errorf("seed %d: %s: the tick %v has %d jobs and is missed %d times; want one of both", seed, s.Name, tick, len(accepted[tick]), missed[tick])
		}
	}
	if jobs == 0 || s.Missed == periodic.MissedAll && skipped > 0 {
		t.Errorf("seed %d: %s: %d jobs, %d missed", seed, s.Name, jobs, skipped)
	}
}

// between returns the ticks after one instant and up to another.
func between(t *testing.T, s periodic.Schedule, after, until time.Time) (ticks []time.Time) {
	t.Helper()
	for {
		all, err := periodic.Ticks(s.Spec, s.Zone, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, tick := range all {
			if tick.After(until) {
				return ticks
			}
			ticks, after = append(ticks, tick.UTC()), tick
		}
	}
}
