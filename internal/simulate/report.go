package simulate

import (
	"slices"
	"time"
)

// A Report is what came of a run.
type Report struct {
	Scenario string
	Gate     string
	Whole    Phase // from the start until the last arrival
	Phases   []Phase
}

// Phase returns the phase of that name, and a zero one if there is none.
func (r *Report) Phase(name string) Phase {
	for _, p := range r.Phases {
		if p.Name == name {
			return p
		}
	}
	return Phase{}
}

// A Phase is what came of a part of a run. Calls are counted where they
// arrived, and Offered is the sum of Answered, all of RefusedBy, WaitTimedOut,
// CallTimedOut and LoadTimedOut.
type Phase struct {
	Name     string
	From, To time.Duration

	Offered      int
	Admitted     int            // those that got to the source
	Answered     int            // within the caller's deadline
	Refused      int            // the sum of RefusedBy
	RefusedBy    map[string]int // by the reason
	WaitTimedOut int            // the caller's deadline passed in the gate
	CallTimedOut int            // the caller's deadline passed in the source
	LoadTimedOut int            // Scenario.LoadTimeout passed in the source

	// Background is those of Offered, and of Answered, that are Background.
	Background, BackgroundAnswered int

	// Goodput is how many answers a second came between From and To, to
	// whichever calls. Possible is how many could have: no more than the
	// source can serve, nor than were offered, in each stretch of ten mean
	// service times.
	Goodput  float64
	Possible float64

	// Latency is what the callers of the admitted calls saw, from arrival to
	// end, and SourceLatency is from admission to end. Calls that timed out
	// in the source count with the time until then.
	Latency, SourceLatency Quantiles

	// Limit is the gate's, over time, if it has one.
	Limit Range
	// InFlight is how many calls were in the source, in the mean over time.
	InFlight float64
	// Capacity and Rate are how many calls at once the source served at full
	// speed, and how many per second, in the mean over time.
	Capacity, Rate float64

	Settled Settled
}

// Quantiles are exact: an element of the sample each.
type Quantiles struct{ P50, P99, Max time.Duration }

// A Range is a number that changed over time.
type Range struct {
	Mean     float64
	Min, Max int
	Known    bool // false if there is none
}

// report makes the report of a run that is over.
func (r *run) report(gate string) Report {
	for _, c := range r.calls {
		if c.verdict == answered {
			r.ends = append(r.ends, c.end)
		}
	}
	slices.Sort(r.ends)
	rep := Report{Scenario: r.s.Name, Gate: gate, Whole: r.phase("whole", 0, r.s.Duration)}
	for i, m := range r.s.Phases {
		to := r.s.Duration
		if i+1 < len(r.s.Phases) {
			to = r.s.Phases[i+1].At
		}
		rep.Phases = append(rep.Phases, r.phase(m.Name, m.At, to))
	}
	return rep
}

func (r *run) phase(name string, from, to time.Duration) Phase {
	p := Phase{Name: name, From: from, To: to, RefusedBy: map[string]int{}}
	calls := between(r.calls, from, to)
	var seen, alone []time.Duration
	for _, c := range calls {
		p.count(c)
		if c.entered {
			seen = append(seen, c.end-c.arrival)
			alone = append(alone, c.end-c.admit)
		}
	}
	p.Latency, p.SourceLatency = quantiles(seen), quantiles(alone)

	seconds := (to - from).Seconds()
	p.Goodput = float64(r.answers(from, to)) / seconds
	p.InFlight = (r.inFlight[to] - r.inFlight[from]) / float64(to-from)
	p.Possible = r.possible(from, to) / seconds
	p.Capacity = r.mean(from, to, func(t time.Duration) float64 { return float64(r.s.Source.CapacityAt(t)) })
	p.Rate = r.mean(from, to, r.s.Source.RateAt)
	if _, ok := r.gate.(sampled); ok {
		p.Limit = limitRange(calls, to)
	}
	p.Settled = r.settled(from, to)
	return p
}

// count counts a call that arrived in p.
func (p *Phase) count(c *call) {
	p.Offered++
	if c.entered {
		p.Admitted++
	}
	if c.background {
		p.Background++
	}
	switch c.verdict {
	case answered:
		p.Answered++
		if c.background {
			p.BackgroundAnswered++
		}
	case refused:
		p.Refused++
		p.RefusedBy[c.reason]++
	case waitTimedOut:
		p.WaitTimedOut++
	case callTimedOut:
		p.CallTimedOut++
	case loadTimedOut:
		p.LoadTimedOut++
	}
}

// between returns the calls that arrived from the one instant on and before
// the other.
func between(calls []*call, from, to time.Duration) []*call {
	arrived := func(c *call, t time.Duration) int { return int(c.arrival - t) }
	i, _ := slices.BinarySearchFunc(calls, from, arrived)
	j, _ := slices.BinarySearchFunc(calls, to, arrived)
	return calls[i:max(i, j)]
}

// answers returns how many answers came from the one instant on and before the
// other.
func (r *run) answers(from, to time.Duration) int {
	i, _ := slices.BinarySearch(r.ends, from)
	j, _ := slices.BinarySearch(r.ends, to)
	return j - i
}

// quantiles sorts d.
func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	return Quantiles{P50: d[(len(d)-1)/2], P99: d[(len(d)-1)*99/100], Max: d[len(d)-1]}
}

// limitRange returns the range of the limit that the calls found at their
// arrival. Each counts for the time until the next.
func limitRange(calls []*call, to time.Duration) Range {
	if len(calls) == 0 {
		return Range{}
	}
	rg := Range{Min: calls[0].limit, Max: calls[0].limit, Known: true}
	for i, c := range calls {
		next := to
		if i+1 < len(calls) {
			next = calls[i+1].arrival
		}
		rg.Mean += float64(c.limit) * float64(next-c.arrival)
		rg.Min, rg.Max = min(rg.Min, c.limit), max(rg.Max, c.limit)
	}
	rg.Mean /= float64(to - calls[0].arrival)
	return rg
}

// mean returns the mean of f over time. f changes with the source's schedules.
func (r *run) mean(from, to time.Duration, f func(time.Duration) float64) float64 {
	sum, t := 0.0, from
	i, _ := slices.BinarySearch(r.steps, from+1)
	for ; i < len(r.steps) && r.steps[i] < to; i++ {
		sum += f(t) * float64(r.steps[i]-t)
		t = r.steps[i]
	}
	return (sum + f(t)*float64(to-t)) / float64(to-from)
}

// possible returns how many calls could have been answered.
func (r *run) possible(from, to time.Duration) float64 {
	slice := 10 * r.s.Source.ServiceAt(from)
	sum := 0.0
	for t := from; t < to; t += slice {
		end := min(t+slice, to)
		sum += min(float64(len(between(r.calls, t, end))), r.mean(t, end, r.s.Source.RateAt)*(end-t).Seconds())
	}
	return sum
}
