package simulate_test

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

// busy returns a scenario in which calls end in every possible way.
func busy(model simulate.Model) simulate.Scenario {
	return simulate.Scenario{
		Name:     "busy",
		Seed:     7,
		Duration: 4 * time.Second,
		Source: simulate.Source{
			Model:    model,
			Capacity: simulate.Steps(time.Second, 20, 40, 10, 20),
			Service:  simulate.Const(0.05),
			Spread:   simulate.LogNormal(2),
			Hung:     simulate.Window(0, 2600*ms, 2900*ms, 1),
		},
		Arrivals:    simulate.Steady(600),
		Deadline:    401 * ms,
		LoadTimeout: 400 * ms,
		Background:  0.1,
		Phases:      []simulate.Mark{{"20", 0}, {"40", time.Second}, {"10", 2 * time.Second}, {"20 again", 3 * time.Second}},
	}
}

func contenders() []simulate.Contender {
	return []simulate.Contender{simulate.Ideal(0), simulate.None(), fixed(25, 50*ms), fixed(25, -1)}
}

func TestRunIsTheSameEveryTime(t *testing.T) {
	for _, model := range []simulate.Model{simulate.Queueing, simulate.Convoy} {
		first := simulate.Compare(t, busy(model), contenders()...)
		before := runtime.GOMAXPROCS(0)
		for _, procs := range []int{1, 8} {
			runtime.GOMAXPROCS(procs)
			for i, again := range simulate.Compare(t, busy(model), contenders()...) {
				if !reflect.DeepEqual(first[i], again) {
					t.Errorf("GOMAXPROCS=%d, %s:\n%+v; want\n%+v", procs, again.Gate, again, first[i])
				}
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

// Run takes only the time of the scenario: it starts when it is called, and returns
// when the last call is over, with no goroutine left.
func TestRunInABubbleOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		start := time.Now()
		s := story(simulate.Const(1), 10*ms, 990*ms)
		r := simulate.Run(s, simulate.None())
		if r.Gate != "none" || r.Whole.Answered != 2 || r.Whole.Latency.Max != 100*ms {
			t.Errorf("Run = %+v; want two answers in 100ms each", r)
		}
		if took := time.Since(start); took != 1090*ms {
			t.Errorf("Run took %v; want 1.09s, the end of the last call", took)
		}
	})
}

// A scenario without a duration or a source is a mistake.
func TestRunOfHalfAScenarioPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic; want one")
		}
	}()
	simulate.Run(simulate.Scenario{Name: "half"}, simulate.None())
}

// Every call ends in one way, and in one phase.
func TestRunAccountsForEveryCall(t *testing.T) {
	for _, model := range []simulate.Model{simulate.Queueing, simulate.Convoy} {
		for _, r := range simulate.Compare(t, busy(model), contenders()...) {
			var sum simulate.Phase
			for _, p := range append([]simulate.Phase{r.Whole}, r.Phases...) {
				refused := 0
				for _, n := range p.RefusedBy {
					refused += n
				}
				if refused != p.Refused {
					t.Errorf("%s, %s: rejections sum up to %d; want %d", r.Gate, p.Name, refused, p.Refused)
				}
				in := p.Answered + p.CallTimedOut + p.LoadTimedOut
				if in != p.Admitted {
					t.Errorf("%s, %s: %d admitted calls ended; want %d", r.Gate, p.Name, in, p.Admitted)
				}
				if out := in + p.Refused + p.WaitTimedOut; out != p.Offered {
					t.Errorf("%s, %s: %d calls ended; want %d", r.Gate, p.Name, out, p.Offered)
				}
				if p.Name != "whole" {
					sum.Offered += p.Offered
					sum.Admitted += p.Admitted
					sum.Answered += p.Answered
					sum.Refused += p.Refused
				}
			}
			w := r.Whole
			if sum.Offered != w.Offered || sum.Admitted != w.Admitted || sum.Answered != w.Answered || sum.Refused != w.Refused {
				t.Errorf("%s: the phases sum up to %+v; want %+v", r.Gate, sum, w)
			}
			if w.LoadTimedOut+w.WaitTimedOut+w.CallTimedOut == 0 || r.Gate == "fixed" && w.Refused == 0 {
				t.Errorf("%s: %+v; want timeouts and rejections, or this test shows nothing", r.Gate, w)
			}
		}
	}
}

// The gate gets the outcome of every call.
func TestRunTellsTheGateTheOutcome(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms, 2*ms)
	for _, c := range []struct {
		name                  string
		deadline, loadTimeout time.Duration
		want                  map[limit.Outcome]int
	}{
		{"answered", time.Minute, 0, map[limit.Outcome]int{limit.Success: 3}},
		{"the caller's deadline", 150 * ms, 0, map[limit.Outcome]int{limit.Success: 1, limit.Ignored: 2}},
		{"the load's timeout", time.Minute, 150 * ms, map[limit.Outcome]int{limit.Success: 1, limit.Dropped: 2}},
	} {
		s.Deadline, s.LoadTimeout = c.deadline, c.loadTimeout
		got := map[limit.Outcome]int{}
		one(t, s, gateFunc(func(context.Context) (func(limit.Outcome), error) {
			return func(o limit.Outcome) { got[o]++ }, nil
		}).contender())
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the gate got %v; want %v", c.name, got, c.want)
		}
	}
}

// A caller whose deadline passes in the gate never reaches the source, even if the
// gate admits it at that very moment or later.
func TestRunDeadlineInTheGate(t *testing.T) {
	s := story(simulate.Const(1), 0)
	s.Deadline = 150 * ms
	var heard []limit.Outcome
	release := func(o limit.Outcome) { heard = append(heard, o) }
	for name, gate := range map[string]gateFunc{
		"an error": func(ctx context.Context) (func(limit.Outcome), error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"an error late, from a context asked late": func(ctx context.Context) (func(limit.Outcome), error) {
			time.Sleep(time.Second)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"let in at the end": func(ctx context.Context) (func(limit.Outcome), error) {
			<-ctx.Done()
			return release, nil
		},
		"let in after the end": func(ctx context.Context) (func(limit.Outcome), error) {
			time.Sleep(time.Hour)
			return release, nil
		},
	} {
		p := one(t, s, gate.contender())
		if p.WaitTimedOut != 1 || p.Admitted != 0 {
			t.Errorf("%s: %+v; want one call that timed out in the gate", name, p)
		}
	}
	if !reflect.DeepEqual(heard, []limit.Outcome{limit.Unused, limit.Unused}) {
		t.Errorf("the gate got %v; want unused, twice", heard)
	}
}

// Calls that a gate admits at one instant, in any order, enter the source in the
// order of their arrival. They arrive one ms apart.
func TestRunEntersInTheOrderOfArrival(t *testing.T) {
	const n = 50
	for _, backwards := range []bool{false, true} {
		var at []time.Duration
		for i := range n {
			at = append(at, time.Duration(i)*ms)
		}
		s := story(simulate.Const(1), at...)
		var turns []chan struct{}
		p := one(t, s, gateFunc(func(context.Context) (func(limit.Outcome), error) {
			turn := make(chan struct{})
			turns = append(turns, turn)
			if len(turns) == n {
				time.AfterFunc(51*ms, func() {
					if backwards {
						slices.Reverse(turns)
					}
					for _, d := range turns {
						close(d)
					}
				})
			}
			<-turn
			return func(limit.Outcome) {}, nil
		}).contender())
		// All enter at 100 ms, and call i ends at 200+100i.
		took(t, p, 200*ms+24*99*ms, 200*ms+49*99*ms)
		if p.SourceLatency.P50 != 2500*ms {
			t.Errorf("median in the source = %v; want 2.5s", p.SourceLatency.P50)
		}
	}
}

func TestRunContextOfTheCaller(t *testing.T) {
	s := story(simulate.Const(100))
	s.Arrivals = simulate.Steady(1000)
	s.Background = 0.25
	background := 0
	p := one(t, s, gateFunc(func(ctx context.Context) (func(limit.Outcome), error) {
		if limit.PriorityOf(ctx) == limit.Background {
			background++
		}
		if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Minute {
			t.Errorf("deadline in %v, %v; want one in a minute", time.Until(d), ok)
		}
		if ctx.Err() != nil {
			t.Errorf("Err = %v; want nil", ctx.Err())
		}
		return func(limit.Outcome) {}, nil
	}).contender())
	if background != p.Background || background < 200 || background > 300 {
		t.Errorf("%d Background callers, %d in the report; want about 250", background, p.Background)
	}
	if p.BackgroundAnswered != background {
		t.Errorf("%d Background callers answered; want all %d", p.BackgroundAnswered, background)
	}
}

// A context derived from the caller's ends with it.
func TestRunDerivedContext(t *testing.T) {
	s := story(simulate.Const(1), 0)
	s.Deadline = 150 * ms
	var ended time.Duration
	one(t, s, gateFunc(func(ctx context.Context) (func(limit.Outcome), error) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-ctx.Done()
		ended = time.Since(start)
		return nil, ctx.Err()
	}).contender())
	if ended != 150*ms {
		t.Errorf("the derived context ended after %v; want 150ms", ended)
	}
}

// The default deadline is ten times the 99th percentile.
func TestScenarioDefaultDeadline(t *testing.T) {
	s := story(simulate.Const(1), 0)
	s.Deadline = 0
	s.Source.Hung = simulate.Const(1)
	if p := one(t, s, simulate.None()); p.Latency.Max != time.Second || p.CallTimedOut != 1 {
		t.Errorf("constant service of 100 ms: ended after %v; want 1s", p.Latency.Max)
	}
	s.Source.Spread = simulate.Exponential
	if p := one(t, s, simulate.None()); p.Latency.Max.Round(ms) != 4605*ms {
		t.Errorf("exponential service of 100 ms: ended after %v; want 4.605s", p.Latency.Max)
	}
}
