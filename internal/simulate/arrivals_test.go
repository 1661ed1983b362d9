package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
)

// arrived returns how many calls per second arrive between from and to.
func arrived(t *testing.T, a simulate.Arrivals, from, to time.Duration) float64 {
	t.Helper()
	s := story(simulate.Const(1e6))
	s.Seed, s.Arrivals, s.Duration = 5, a, 40*time.Second
	s.Phases = []simulate.Mark{{"", 0}, {"asked for", from}, {"", to}}
	r := simulate.Compare(t, s, simulate.None())[0]
	return float64(r.Phases[1].Offered) / (to - from).Seconds()
}

func TestArrivalsHaveTheirRate(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name     string
		a        simulate.Arrivals
		from, to time.Duration
		want     float64
	}{
		{"steady", simulate.Steady(300), 0, 40 * sec, 300},
		{"scheduled, before", simulate.Scheduled(simulate.Schedule{{0, 100}, {20 * sec, 400}}), 0, 20 * sec, 100},
		{"scheduled, after", simulate.Scheduled(simulate.Schedule{{0, 100}, {20 * sec, 400}}), 20 * sec, 40 * sec, 400},
		{"cyclic, upper half", simulate.Cyclic(100, 500, 40*sec), 0, 20 * sec, 300 + 200*2/math.Pi},
		{"cyclic, lower half", simulate.Cyclic(100, 500, 40*sec), 20 * sec, 40 * sec, 300 - 200*2/math.Pi},
		{"burst", simulate.Bursts(100, 500, 10*sec, 5*sec), 15 * sec, 20 * sec, 500},
		{"between bursts", simulate.Bursts(100, 500, 10*sec, 5*sec), 20 * sec, 30 * sec, 100},
	} {
		got := arrived(t, c.a, c.from, c.to)
		// Four standard deviations of a Poisson count.
		if off := 4 * math.Sqrt(c.want/(c.to-c.from).Seconds()); math.Abs(got-c.want) > off {
			t.Errorf("%s: %.1f per second; want %.1f within %.1f", c.name, got, c.want, off)
		}
	}
}

func TestTraceIsTakenAsItIs(t *testing.T) {
	s := story(simulate.Const(100), 0, 0, 5*ms, 5*ms, 900*ms, 2*time.Second)
	if p := one(t, s, simulate.None()); p.Offered != 5 {
		t.Errorf("%d arrived; want 5; the last one is after the end", p.Offered)
	}
	// Of two calls at the same instant, the second arrives a nanosecond later.
	took(t, one(t, story(simulate.Const(1), 0, 0), simulate.None()), 100*ms, 200*ms-1)
}

func TestScheduleAt(t *testing.T) {
	s := simulate.Steps(time.Second, 1, 2, 3)
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{{-1, 1}, {0, 1}, {time.Second - 1, 1}, {time.Second, 2}, {2 * time.Second, 3}, {time.Hour, 3}} {
		if got := s.At(c.at); got != c.want {
			t.Errorf("At(%v) = %v; want %v", c.at, got, c.want)
		}
	}
	if got := simulate.Schedule(nil).At(1); got != 0 {
		t.Errorf("At of an empty schedule = %v; want 0", got)
	}
	w := simulate.Window(5, 1, 3, 9)
	if got := []float64{w.At(0), w.At(1), w.At(2), w.At(3)}; got[0] != 5 || got[1] != 9 || got[2] != 9 || got[3] != 5 {
		t.Errorf("Window at 0 to 3 = %v; want 5 9 9 5", got)
	}
}

// There is one call at a time, and no call waits, so calls take exactly the time that
// was drawn.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name      string
		d         simulate.Dist
		p50, p99  float64 // relative to the mean
		tolerance float64
	}{
		{"constant", simulate.Constant, 1, 1, 0},
		{"exponential", simulate.Exponential, math.Ln2, math.Log(100), 0.05},
		{"log-normal 1", simulate.LogNormal(1), math.Sqrt(0.5), 4.909, 0.05},
	} {
		s := story(simulate.Const(1e6))
		s.Source.Spread = c.d
		s.Seed, s.Arrivals, s.Duration = 9, simulate.Steady(1000), 10*time.Second
		l := one(t, s, simulate.None()).Latency
		p50, p99 := l.P50.Seconds()/0.1, l.P99.Seconds()/0.1
		if math.Abs(p50/c.p50-1) > c.tolerance || math.Abs(p99/c.p99-1) > c.tolerance {
			t.Errorf("%s: median %.3f, p99 %.3f of the mean; want %.3f, %.3f", c.name, p50, p99, c.p50, c.p99)
		}
	}
}
