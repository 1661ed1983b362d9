package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
)

// erlangC returns the mean wait in M/M/c, in mean service times.
func erlangC(c int, utilisation float64) float64 {
	a := float64(c) * utilisation
	sum, term := 0.0, 1.0
	for k := range c {
		sum += term
		term *= a / float64(k+1)
	}
	last := term / (1 - utilisation)
	return last / (sum + last) / (float64(c) * (1 - utilisation))
}

func TestQueueingIsErlangC(t *testing.T) {
	const c = 10
	s := simulate.Scenario{
		Seed:     1,
		Duration: 500 * time.Second,
		Source: simulate.Source{
			Capacity: simulate.Const(c),
			Service:  simulate.Const(0.05),
			Spread:   simulate.Exponential,
		},
		Arrivals: simulate.Steady(0.8 * c / 0.05),
		Deadline: time.Hour,
	}
	p := one(t, s, simulate.None())
	// By Little's law, the mean number in the source is the arrivals per second times
	// the mean time there.
	got := p.InFlight/(float64(p.Offered)/500)/0.05 - 1
	if want := erlangC(c, 0.8); math.Abs(got/want-1) > 0.04 {
		t.Errorf("mean wait = %.4f service times; want %.4f, by the Erlang C formula", got, want)
	}
	if p.Answered != p.Offered {
		t.Errorf("%d answered; want all %d", p.Answered, p.Offered)
	}
}

func TestQueueingServesInOrder(t *testing.T) {
	took(t, one(t, story(simulate.Const(1), 0, 1*ms, 2*ms), simulate.None()), 199*ms, 298*ms)
}

func TestQueueingStepUp(t *testing.T) {
	s := story(simulate.Schedule{{0, 1}, {50 * ms, 2}}, 0, 1*ms)
	took(t, one(t, s, simulate.None()), 100*ms, 149*ms)
}

// Two servers become one while both are busy: both finish, and the next call starts
// when the second is done.
func TestQueueingStepDown(t *testing.T) {
	s := story(simulate.Schedule{{0, 2}, {50 * ms, 1}}, 0, 10*ms, 20*ms)
	took(t, one(t, s, simulate.None()), 100*ms, 190*ms)
}

func TestQueueingServiceStepIsForLaterStarts(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms)
	s.Source.Service = simulate.Schedule{{0, 0.1}, {50 * ms, 0.5}}
	took(t, one(t, s, simulate.None()), 100*ms, 599*ms)
}

// The second call gives up in service, at 194 ms. The third then has until 299 ms for
// its 100 ms if the server is free; the abandoned work there would take until 200 ms.
func TestQueueingCallThatGivesUpFreesItsServer(t *testing.T) {
	s := story(simulate.Const(1), 0, 5*ms, 110*ms)
	s.Deadline = 189 * ms
	ended(t, one(t, s, simulate.None()), 2, 1, 0)
	s.Source.KeepServer = true
	ended(t, one(t, s, simulate.None()), 1, 2, 0)
}

// With equal shares, at 189 ms the three calls have completed 83.8, 78.8 and 26.3 ms
// of their 100. The first two give up, so the third is alone from 194 ms on, and ends
// at 265 ms. If the work of the other two continued, all would end at 300 ms, but the
// third would give up a millisecond earlier.
func TestConvoyCallThatGivesUpFreesItsShare(t *testing.T) {
	s := story(simulate.Const(1), 0, 5*ms, 110*ms)
	s.Source.Model, s.Source.Penalty = simulate.Convoy, -1
	s.Deadline = 189 * ms
	s.Phases = []simulate.Mark{{"two", 0}, {"third", 110 * ms}}
	r := simulate.Compare(t, s, simulate.None())[0]
	ended(t, r.Whole, 1, 2, 0)
	if got := r.Phase("third").Latency.Max.Round(10 * time.Microsecond); got != 155170*time.Microsecond {
		t.Errorf("the third took %v; want 155.17ms", got)
	}
	s.Source.KeepServer = true
	ended(t, one(t, s, simulate.None()), 0, 3, 0)
}

// The first keeps its server until 100 ms. The second gives up in the queue at 96 ms,
// so the third has the server from 100 ms on, when calls take 10 ms.
func TestCallThatGivesUpLeavesTheQueue(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms, 50*ms)
	s.Deadline = 95 * ms
	s.Source.KeepServer = true
	s.Source.Service = simulate.Schedule{{0, 0.1}, {98 * ms, 0.01}}
	p := one(t, s, simulate.None())
	ended(t, p, 1, 2, 0)
	if p.Latency.P50 != 95*ms || p.SourceLatency.P50 != 95*ms {
		t.Errorf("medians %v and %v; want 95ms, the deadline", p.Latency.P50, p.SourceLatency.P50)
	}
	s.Duration = 110 * ms
	if p := one(t, s, simulate.None()); p.Goodput != 0 {
		t.Errorf("goodput before 110 ms = %v; want 0", p.Goodput)
	}
	s.Duration = 111 * ms
	if p := one(t, s, simulate.None()); math.Abs(p.Goodput*0.111-1) > 1e-9 {
		t.Errorf("answers before 111 ms = %v; want 1", p.Goodput*0.111)
	}
}

// The source hangs from 50 to 150 ms. The first call would end during that time, and
// the second and third start then; none of them completes. The fourth starts at 180
// ms, when the third times out.
func TestHungCallsEndByTheirContext(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms, 60*ms, 165*ms)
	s.Source.Hung = simulate.Window(0, 50*ms, 150*ms, 1)
	s.LoadTimeout = 120 * ms
	p := one(t, s, simulate.None())
	ended(t, p, 1, 0, 3)
	if p.Latency.P50 != 120*ms || p.Rate != 9 {
		t.Errorf("median %v, rate %v; want 120ms and 9, 0 for a tenth of the time", p.Latency.P50, p.Rate)
	}
	s.LoadTimeout, s.Deadline = 0, 120*ms
	ended(t, one(t, s, simulate.None()), 1, 3, 0)
	s.Source.Model = simulate.Convoy // in which no call waits
	ended(t, one(t, s, simulate.None()), 1, 3, 0)
}

// A call that starts at 140 ms hangs, although the source would have recovered by the
// time it ends.
func TestCallThatStartsInAHangHangs(t *testing.T) {
	for _, model := range []simulate.Model{simulate.Queueing, simulate.Convoy} {
		s := story(simulate.Const(1), 140*ms)
		s.Source.Model = model
		s.Source.Hung = simulate.Window(0, 50*ms, 150*ms, 1)
		s.Deadline = 200 * ms
		ended(t, one(t, s, simulate.None()), 0, 1, 0)
		s.Arrivals.Trace = []time.Duration{150 * ms}
		ended(t, one(t, s, simulate.None()), 1, 0, 0)
	}
}

// n calls that arrive together and have the same demand end together, after the time
// that the formula gives.
func TestConvoyClosedForm(t *testing.T) {
	for _, c := range []struct {
		n       int
		penalty float64
		want    time.Duration
	}{
		{10, 1, 100 * ms},
		{30, -1, 300 * ms},
		{30, 0, 900 * ms},
		{30, 1, 900 * ms},
		{30, 3, 2100 * ms},
	} {
		s := story(simulate.Const(10), make([]time.Duration, c.n)...)
		s.Source.Model, s.Source.Penalty = simulate.Convoy, c.penalty
		p := one(t, s, simulate.None())
		if d := p.Latency.Max - c.want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%d calls, penalty %v: %v; want %v", c.n, c.penalty, p.Latency.Max, c.want)
		}
	}
}

// The capacity drops from 10 to 5 at 50 ms, when 10 calls are half done: the other
// half takes two times (1+1) as long.
func TestConvoyStep(t *testing.T) {
	s := story(simulate.Schedule{{0, 10}, {50 * ms, 5}}, make([]time.Duration, 10)...)
	s.Source.Model = simulate.Convoy
	p := one(t, s, simulate.None())
	if d := p.Latency.Max - 250*ms; d < -time.Microsecond || d > time.Microsecond {
		t.Errorf("10 calls took %v; want 250ms", p.Latency.Max)
	}
}

func TestConvoyThroughputAtFixedNumber(t *testing.T) {
	for _, c := range []struct {
		n       int
		penalty float64
	}{{10, 1}, {20, 1}, {30, 1}, {20, 3}} {
		s := simulate.Scenario{
			Seed:     3,
			Duration: 30 * time.Second,
			Source: simulate.Source{
				Model:    simulate.Convoy,
				Penalty:  c.penalty,
				Capacity: simulate.Const(10),
				Service:  simulate.Const(0.05),
			},
			Arrivals: simulate.Steady(400),
			Deadline: time.Minute,
		}
		p := one(t, s, fixed(c.n, time.Second))
		over := float64(c.n-10) / 10
		want := 200 / (1 + c.penalty*over)
		if math.Abs(p.Goodput/want-1) > 0.02 {
			t.Errorf("%d at once, penalty %v: %.1f per second; want %.1f", c.n, c.penalty, p.Goodput, want)
		}
	}
}

// Work left behind by a caller that gave up slows the others down until it would have
// ended. The source contains only what the first call left, which ends at 100 ms
// although no event is due then; the second call is alone.
func TestConvoyKeepServerWithNobodyThere(t *testing.T) {
	s := story(simulate.Const(1), 0, 120*ms)
	s.Source.Model, s.Source.KeepServer = simulate.Convoy, true
	s.Source.Service = simulate.Schedule{{0, 0.1}, {110 * ms, 0.02}}
	s.Deadline = 30 * ms
	p := one(t, s, simulate.None())
	ended(t, p, 1, 1, 0)
	took(t, p, 20*ms, 30*ms)
	if math.Abs(p.InFlight-0.12) > 1e-6 {
		t.Errorf("mean in the source = %v; want 0.12", p.InFlight)
	}
}
