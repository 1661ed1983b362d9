package simulate_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

// A queue in front of one server leads to latencies of 100, 199, 298, ... ms.
func TestQuantilesAreElements(t *testing.T) {
	var at []time.Duration
	for i := range 101 {
		at = append(at, time.Duration(i)*ms)
	}
	s := story(simulate.Const(1), at...)
	s.Duration = 20 * time.Second
	l := one(t, s, simulate.None()).Latency
	want := simulate.Quantiles{P50: 100*ms + 50*99*ms, P99: 100*ms + 99*99*ms, Max: 100*ms + 100*99*ms}
	if l != want {
		t.Errorf("%+v; want %+v", l, want)
	}
}

// The limit is 10 at first, and 30 from the call at 400 ms on.
func TestLimitIsWeighedByTime(t *testing.T) {
	n := 0
	c := simulate.Contender{New: func(simulate.Scenario) simulate.Gate {
		return simulate.Limiter(withLimit{limit.All(), func() int {
			if n++; n <= 3 {
				return 10
			}
			return 30
		}})
	}}
	p := one(t, story(simulate.Const(9), 0, 1*ms, 2*ms, 400*ms, 500*ms), c)
	if p.Limit.Min != 10 || p.Limit.Max != 30 || math.Abs(p.Limit.Mean-22) > 1e-6 {
		t.Errorf("limit %+v; want 10 to 30, mean 22", p.Limit)
	}
}

// A phase's capacity, rate and possible responses are means over its time.
func TestPhaseMeans(t *testing.T) {
	s := story(simulate.Schedule{{0, 2}, {500 * ms, 4}}, 0, 1*ms, 2*ms)
	s.Duration = 2 * time.Second
	s.Phases = []simulate.Mark{{"a", 250 * ms}, {"b", time.Second}}
	r := simulate.Compare(t, s, simulate.None())[0]
	a := r.Phase("a")
	if math.Abs(a.Capacity-(2*250+4*500)/750.) > 1e-9 || math.Abs(a.Rate-10*a.Capacity) > 1e-9 {
		t.Errorf("capacity %v, rate %v; want %v and ten times as much", a.Capacity, a.Rate, 2500/750.)
	}
	if a.Possible != 0 || r.Whole.Possible != 1.5 {
		t.Errorf("possible %v and %v; want 0, because no call arrived, and 1.5", a.Possible, r.Whole.Possible)
	}
	if math.Abs(r.Whole.InFlight-0.15) > 0.05 || a.InFlight != 0 {
		t.Errorf("in flight %v and %v; want about 0.2, and 0", r.Whole.InFlight, a.InFlight)
	}
	if p := r.Phase("c"); p.Offered != 0 || p.Name != "" {
		t.Errorf("a missing phase = %+v; want the zero Phase", p)
	}
}

func settling() simulate.Scenario {
	return simulate.Scenario{
		Seed:     4,
		Duration: 20 * time.Second,
		Source: simulate.Source{
			Model:    simulate.Convoy,
			Capacity: simulate.Const(10),
			Service:  simulate.Const(0.05),
		},
		Arrivals: simulate.Steady(400),
	}
}

func TestSettled(t *testing.T) {
	s := settling()
	if got := one(t, s, simulate.Ideal(0)).Settled; got.After != 0 || got.Kept != 1 {
		t.Errorf("ideal gate: %+v; want settled from the start", got)
	}
	if got := one(t, s, simulate.None()).Settled; got.After >= 0 {
		t.Errorf("no limit: %+v; want never settled", got)
	}
	// After 10 s, which is 200 service times, the limit enters or leaves the band.
	claims := func(before, after int) simulate.Contender {
		return simulate.Contender{New: func(s simulate.Scenario) simulate.Gate {
			start := time.Now()
			l, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 10, MaxWait: 50 * ms})
			return simulate.Limiter(withLimit{l, func() int {
				if time.Since(start) < 10*time.Second {
					return before
				}
				return after
			}})
		}}
	}
	for _, c := range []struct {
		before, after int
		want          float64
	}{{21, 20, 200}, {7, 8, 200}, {20, 21, 0}, {8, 7, 0}} {
		got := one(t, s, claims(c.before, c.after)).Settled
		if got.After != c.want {
			t.Errorf("limit %d, then %d: settled after %v; want %v", c.before, c.after, got.After, c.want)
		}
		if c.want == 0 && (got.Kept < 0.4 || got.Kept > 0.6) {
			t.Errorf("limit %d, then %d: kept %v; want about half", c.before, c.after, got.Kept)
		}
	}
}

func TestTable(t *testing.T) {
	s := settling()
	s.Name = "a convoy"
	s.Duration = 5 * time.Second
	s.Phases = []simulate.Mark{{"first", 0}, {"second", 2 * time.Second}}
	reports := simulate.Compare(t, s, simulate.Ideal(0), simulate.None(), fixed(20, 50*ms))
	var b strings.Builder
	if err := simulate.Table(&b, reports...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a convoy", "first", "second", "ideal", "none", "fixed", "of ideal", "1.000", "10..10", "never"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 1+2*(1+3) {
		t.Errorf("%d lines; want 9:\n%s", n, b.String())
	}
	b.Reset()
	if err := simulate.Summary(&b, [][]simulate.Report{reports}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 3 || !strings.Contains(b.String(), "a convoy: second") {
		t.Errorf("%d lines; want 3:\n%s", n, b.String())
	}
}

// Every scenario has its own name and seed, and phases in order of time.
func TestScenarios(t *testing.T) {
	names, seeds := map[string]bool{}, map[uint64]bool{}
	for _, s := range simulate.Scenarios() {
		if names[s.Name] || seeds[s.Seed] {
			t.Errorf("%s, seed %d: the name or the seed is used twice", s.Name, s.Seed)
		}
		names[s.Name], seeds[s.Seed] = true, true
		if got := simulate.Named(s.Name); got.Seed != s.Seed {
			t.Errorf("Named(%q) has seed %d; want %d", s.Name, got.Seed, s.Seed)
		}
		for i, m := range s.Phases {
			if i == 0 && m.At != 0 || i > 0 && m.At <= s.Phases[i-1].At || m.At >= s.Duration {
				t.Errorf("%s: phase %q at %v", s.Name, m.Name, m.At)
			}
		}
		if len(s.Phases) == 0 {
			t.Errorf("%s has no phases", s.Name)
		}
	}
	if len(names) < 35 {
		t.Errorf("%d scenarios; want at least 35", len(names))
	}
}
