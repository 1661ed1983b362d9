package limit_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

// adaptive is an Adaptive with no option set.
func adaptive() simulate.Contender {
	return simulate.Contender{Name: "adaptive", New: func(simulate.Scenario) simulate.Gate {
		a, err := limit.NewAdaptive(limit.AdaptiveOptions{})
		if err != nil {
			panic(err)
		}
		return simulate.Limiter(a)
	}}
}

// A verdict checks a run with an Adaptive against the ideal one.
type verdict func(t *testing.T, adaptive, ideal simulate.Report)

// A trial is a scenario with its verdict.
type trial struct {
	scenario simulate.Scenario
	must     verdict
}

// overloads returns the scenarios and their verdicts. Goodput is compared with that
// of the ideal, a limiter that knows the capacity at every moment.
func overloads() []trial {
	var trials []trial
	add := func(s simulate.Scenario, v verdict) { trials = append(trials, trial{s, v}) }
	steady := func(least float64) verdict {
		return func(t *testing.T, a, ideal simulate.Report) { goodput(t, a, ideal, "steady", least) }
	}
	for _, s := range simulate.Overloads() {
		// Twice the p99 of the idle source, and what the limit is above the capacity at times.
		slowest := 2 * unloaded(s.Source) * 21 / 20
		least := 0.95
		if s.Source.Model == simulate.Convoy {
			// Here each permit too many costs as much as one too few, or
			// more: with ten permits and exponential service times, the limit
			// cannot be known well enough. Decision 0009 has the figures.
			least = convoyGoodput
		}
		add(s, func(t *testing.T, a, ideal simulate.Report) {
			goodput(t, a, ideal, "steady", least)
			if got := a.Phase("steady").Latency.P99; got > slowest {
				t.Errorf("p99 of admitted calls is %v; want at most %v, 2.1 times that of the idle source", got, slowest)
			}
		})
	}
	for _, s := range simulate.UnderCapacity() {
		add(s, steady(0.95))
	}
	for _, s := range simulate.ColdStarts() {
		least := 0.95
		if s.Source.CapacityAt(0) < 4 {
			least = 0.85 // one permit is a third here
		}
		add(s, steady(least))
	}
	for _, s := range []simulate.Scenario{simulate.Fast(), simulate.KeptServers(),
		simulate.Bursty(time.Second), simulate.Bursty(20 * time.Second), simulate.Wave()} {
		add(s, steady(0.95))
	}

	add(simulate.CapacitySteps(), func(t *testing.T, a, ideal simulate.Report) {
		for _, phase := range []string{"20", "40", "10", "20 again"} {
			goodput(t, a, ideal, phase, 0.95)
			if after := a.Phase(phase).Settled.After; after < 0 || after > 100 {
				t.Errorf("phase %q settled after %.0f service times; want at most 100", phase, after)
			}
		}
	})
	add(simulate.SlowingDown(), func(t *testing.T, a, ideal simulate.Report) {
		goodput(t, a, ideal, "growing", 0.95)
		goodput(t, a, ideal, "grown", 0.95)
	})
	add(simulate.Leak(), func(t *testing.T, a, ideal simulate.Report) {
		goodput(t, a, ideal, "leaking", 0.95)
		goodput(t, a, ideal, "leaked", 0.95)
		most(t, a, "leaked", 2*5)
	})
	add(simulate.CapacityBrownOut(), func(t *testing.T, a, ideal simulate.Report) {
		goodput(t, a, ideal, "brown-out, first 5 minutes", 0.9)
		goodput(t, a, ideal, "brown-out, the rest", 0.93) // one permit is a third here
		most(t, a, "brown-out, the rest", 2*3)
		goodput(t, a, ideal, "after", 0.85) // the limit takes a minute to grow back from 3 to 12
	})
	add(simulate.SlowBrownOut(), func(t *testing.T, a, ideal simulate.Report) {
		goodput(t, a, ideal, "brown-out, first 5 minutes", 0.9)
		goodput(t, a, ideal, "brown-out, the rest", 0.95)
		most(t, a, "brown-out, the rest", 2*12)
		goodput(t, a, ideal, "after", 0.95)
	})
	add(simulate.Hang(), func(t *testing.T, a, ideal simulate.Report) {
		if l := a.Phase("hanging").Limit.Mean; l > 2 {
			t.Errorf("the mean limit in phase \"hanging\" is %.1f; want at most 2", l)
		}
		goodput(t, a, ideal, "the rest after", 0.95)
	})
	return trials
}

// convoyGoodput is the goodput reached, instead of 0.95, when calls slow each other
// down.
const convoyGoodput = 0.9

func goodput(t *testing.T, a, ideal simulate.Report, phase string, least float64) {
	t.Helper()
	got, of := a.Phase(phase).Goodput, ideal.Phase(phase).Goodput
	if of == 0 || got < least*of {
		t.Errorf("goodput in phase %q is %.1f/s; want at least %.2f of %.1f/s", phase, got, least, of)
	}
}

func most(t *testing.T, a simulate.Report, phase string, limit int) {
	t.Helper()
	if got := a.Phase(phase).Limit.Max; got == 0 || got > limit {
		t.Errorf("the highest limit in phase %q is %d; want at most %d, twice the capacity", phase, got, limit)
	}
}

// unloaded returns the p99 of an otherwise idle source.
func unloaded(s simulate.Source) time.Duration {
	mean := s.ServiceAt(0)
	if s.Spread == simulate.Exponential {
		return time.Duration(math.Log(100) * float64(mean))
	}
	return mean
}

// B4: an Adaptive with no option set finds the capacity of sources that are
// overloaded, change, fail and recover. -v prints the tables; the runs are
// deterministic.
func TestB4AdaptiveFindsWhatTheSourceTakes(t *testing.T) {
	// One in five, each with another load, and all of them in a full run. Under the race
	// detector, for which they are all alike, two.
	of := histories.Count(5, 1) * histories.Part()
	for i, x := range overloads() {
		s := x.scenario
		if i%of != i/of%of {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			reports := simulate.Compare(t, s, simulate.Ideal(0), adaptive())
			simulate.Table(t.Output(), reports...)
			x.must(t, reports[1], reports[0])
		})
	}
}
