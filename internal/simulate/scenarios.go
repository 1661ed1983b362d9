package simulate

import (
	"fmt"
	"time"
)

// The set of scenarios. Unless stated otherwise, service times are exponential, a
// load is ended after twenty mean service times, and a load of 1 is as many calls per
// second as the source can serve at the start.

// Scenarios returns the whole set. It takes about ten seconds of real time for one
// gate.
func Scenarios() []Scenario {
	s := Overloads()
	s = append(s, UnderCapacity()...)
	s = append(s, ColdStarts()...)
	return append(s, Fast(), KeptServers(),
		CapacitySteps(), SlowingDown(), Leak(),
		CapacityBrownOut(), SlowBrownOut(), Hang(),
		Bursty(time.Second), Bursty(20*time.Second), Wave())
}

// Named returns the scenario with this name. It panics if there is none.
func Named(name string) Scenario {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s
		}
	}
	panic("simulate: there is no scenario named " + name)
}

// pool returns a Queueing source.
func pool(capacity float64, service time.Duration) Source {
	return Source{
		Capacity: Const(capacity),
		Service:  Const(service.Seconds()),
		Spread:   Exponential,
	}
}

// scenario returns a scenario with a LoadTimeout.
func scenario(name string, seed uint64, d time.Duration, src Source, a Arrivals) Scenario {
	return Scenario{
		Name:        name,
		Seed:        seed,
		Duration:    d,
		Source:      src,
		Arrivals:    a,
		LoadTimeout: 20 * src.ServiceAt(0),
	}
}

// at returns arrivals with this load on src.
func at(load float64, src Source) Arrivals { return Steady(load * src.RateAt(0)) }

// startThenSteady separates the first part, in which a limiter searches for its
// limit.
func (s Scenario) startThenSteady(start time.Duration) Scenario {
	s.Phases = []Mark{{Name: "start"}, {Name: "steady", At: start}}
	return s
}

// Overloads returns a steady load of 1.2, 1.5, 2, 3 and 5 for each of four sources
// with 10 servers and a service time of 50 ms. The sources are queueing with
// exponential and with constant service, and convoys with a penalty of 1 and of 3.
// The first 20 s are one phase, and the next 40 s are the other.
func Overloads() []Scenario {
	exp := pool(10, 50*time.Millisecond)
	constant, convoy, convoy3 := exp, exp, exp
	constant.Spread = Constant
	convoy.Model, convoy.Penalty = Convoy, 1
	convoy3.Model, convoy3.Penalty = Convoy, 3
	var all []Scenario
	for i, kind := range []struct {
		name string
		src  Source
	}{
		{"queueing", exp}, {"queueing, constant service", constant},
		{"convoy", convoy}, {"convoy, penalty 3", convoy3},
	} {
		for k, load := range []float64{1.2, 1.5, 2, 3, 5} {
			name := fmt.Sprintf("load %g, %s", load, kind.name)
			s := scenario(name, uint64(100+10*i+k), time.Minute, kind.src, at(load, kind.src))
			all = append(all, s.startThenSteady(20*time.Second))
		}
	}
	return all
}

// UnderCapacity returns a steady load of 0.5 and 0.9, for queueing and convoy. No
// gate has a reason to reject many calls: at 0.9, the ideal gate rejects some when
// too many arrive at once by chance.
func UnderCapacity() []Scenario {
	var all []Scenario
	for i, load := range []float64{0.5, 0.9} {
		for k, model := range []Model{Queueing, Convoy} {
			src := pool(10, 50*time.Millisecond)
			src.Model = model
			name := fmt.Sprintf("load %g, %s", load, []string{"queueing", "convoy"}[k])
			s := scenario(name, uint64(200+10*i+k), time.Minute, src, at(load, src))
			all = append(all, s.startThenSteady(20*time.Second))
		}
	}
	return all
}

// ColdStarts returns a load of 3 from the first moment, for capacities of 2, 20 and
// 200.
func ColdStarts() []Scenario {
	var all []Scenario
	for i, c := range []struct {
		capacity float64
		service  time.Duration
	}{{2, 50 * time.Millisecond}, {20, 50 * time.Millisecond}, {200, 200 * time.Millisecond}} {
		src := pool(c.capacity, c.service)
		name := fmt.Sprintf("cold start, load 3, capacity %g", c.capacity)
		s := scenario(name, uint64(300+i), 40*time.Second, src, at(3, src))
		all = append(all, s.startThenSteady(20*time.Second))
	}
	return all
}

// Fast returns a load of 1.5 on 10 servers with a service time of 5 ms.
func Fast() Scenario {
	src := pool(10, 5*time.Millisecond)
	return scenario("load 1.5, service 5ms", 400, 20*time.Second, src, at(1.5, src)).startThenSteady(10 * time.Second)
}

// KeptServers returns a load of 2 on 10 servers of 50 ms that do not notice when a
// caller has left. Callers wait for at most half a second, so a call that is admitted
// too early is wasted work.
func KeptServers() Scenario {
	src := pool(10, 50*time.Millisecond)
	src.KeepServer = true
	s := scenario("load 2, kept servers", 401, time.Minute, src, at(2, src))
	s.Deadline = 500 * time.Millisecond
	return s.startThenSteady(20 * time.Second)
}

// CapacitySteps returns a load of 1.5 on 20 servers of 50 ms. Their number changes to
// 40, 10 and 20 again, for half a minute each.
func CapacitySteps() Scenario {
	const each = 30 * time.Second
	src := pool(20, 50*time.Millisecond)
	a := at(1.5, src)
	src.Capacity = Steps(each, 20, 40, 10, 20)
	s := scenario("capacity 20, 40, 10, 20", 500, 4*each, src, a)
	s.Phases = []Mark{{"20", 0}, {"40", each}, {"10", 2 * each}, {"20 again", 3 * each}}
	return s
}

// SlowingDown returns a load of 1.2 on 10 servers of 200 ms whose service time grows
// by 1% every 10 s until it has tripled, and then stays constant.
func SlowingDown() Scenario {
	src := pool(10, 200*time.Millisecond)
	a := at(1.2, src)
	var times []float64
	for f := 1.0; f < 3; f *= 1.01 {
		times = append(times, 0.2*f)
	}
	src.Service = Steps(10*time.Second, append(times, 0.6)...)
	grown := time.Duration(len(times)) * 10 * time.Second
	s := scenario("service time grows threefold in 18 minutes", 501, grown+5*time.Minute, src, a)
	s.LoadTimeout = 20 * 600 * time.Millisecond
	s.Phases = []Mark{{"growing", 0}, {"grown", grown}}
	return s
}

// Leak returns a load of 1.2 on 20 servers of 200 ms, of which one is lost every 40 s
// until 5 are left.
func Leak() Scenario {
	src := pool(20, 200*time.Millisecond)
	a := at(1.2, src)
	var servers []float64
	for c := 20.0; c >= 5; c-- {
		servers = append(servers, c)
	}
	src.Capacity = Steps(40*time.Second, servers...)
	s := scenario("capacity leaks from 20 to 5 in 10 minutes", 502, 12*time.Minute, src, a)
	s.Phases = []Mark{{"leaking", 0}, {"leaked", 10 * time.Minute}}
	return s
}

// brownOut is the timeline of the two brown-outs.
var brownOut = []Mark{{"before", 0}, {"brown-out, first 5 minutes", 5 * time.Minute},
	{"brown-out, the rest", 10 * time.Minute}, {"after", 35 * time.Minute}}

// CapacityBrownOut returns a load of 0.9 on 12 servers of 250 ms, of which only 3 are
// left for half an hour.
func CapacityBrownOut() Scenario {
	src := pool(12, 250*time.Millisecond)
	a := at(0.9, src)
	src.Capacity = Window(12, brownOut[1].At, brownOut[3].At, 3)
	s := scenario("a quarter of the capacity for 30 minutes", 503, 40*time.Minute, src, a)
	s.Phases = brownOut
	return s
}

// SlowBrownOut returns a load of 0.9 on 12 servers of 250 ms that take five times as
// long for half an hour, however few calls they have. Fewer concurrent calls would
// not make them faster, so the right limit is still 12.
func SlowBrownOut() Scenario {
	src := pool(12, 250*time.Millisecond)
	a := at(0.9, src)
	src.Service = Window(0.25, brownOut[1].At, brownOut[3].At, 5*0.25)
	s := scenario("five times the service time for 30 minutes", 504, 40*time.Minute, src, a)
	s.Phases = brownOut
	return s
}

// Hang returns a load of 0.9 on 10 servers of 100 ms that respond to nothing for 10
// minutes.
func Hang() Scenario {
	src := pool(10, 100*time.Millisecond)
	a := at(0.9, src)
	from, to := 2*time.Minute, 12*time.Minute
	src.Hung = Window(0, from, to, 1)
	s := scenario("no answer for 10 minutes", 505, 17*time.Minute, src, a)
	s.Phases = []Mark{{"before", 0}, {"hanging", from}, {"first 10 s after", to}, {"the rest after", to + 10*time.Second}}
	return s
}

// Bursty returns a load on 10 servers of 50 ms that alternates between 2 and 0.5, for
// each duration in turn.
func Bursty(each time.Duration) Scenario {
	src := pool(10, 50*time.Millisecond)
	rate := src.RateAt(0)
	s := scenario(fmt.Sprintf("bursts of %v", each), 510+uint64(each/time.Second), 2*time.Minute, src, Bursts(0.5*rate, 2*rate, each, each))
	return s.startThenSteady(40 * time.Second)
}

// Wave returns a load on 10 servers of 50 ms that swings between 0.5 and 2 with a
// period of 40 s.
func Wave() Scenario {
	src := pool(10, 50*time.Millisecond)
	rate := src.RateAt(0)
	s := scenario("a wave of 40s", 507, 2*time.Minute, src, Cyclic(0.5*rate, 2*rate, 40*time.Second))
	return s.startThenSteady(40 * time.Second)
}
