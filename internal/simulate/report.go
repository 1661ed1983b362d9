package simulate

import (
	"cmp"
	"slices"
	"time"
)

// A Report is the result of a run.
type Report struct {
	Scenario string
	Gate     string
	Whole    Phase // from the start until the last arrival
	Phases   []Phase
	// PerSecond is the number of responses in each second of the run.
	PerSecond []int
}

// Phase returns the phase with this name, or a zero Phase if there is none.
func (r *Report) Phase(name string) Phase {
	for _, p := range r.Phases {
		if p.Name == name {
			return p
		}
	}
	return Phase{}
}

// A Phase is the result of a part of a run. A call is counted in the phase in which
// it arrived. Offered is the sum of Answered, all of RefusedBy, WaitTimedOut,
// CallTimedOut and LoadTimedOut.
type Phase struct {
	Name     string
	From, To time.Duration

	Offered      int
	Admitted     int            // calls that reached the source
	Answered     int            // within the caller's deadline
	Refused      int            // the sum of RefusedBy
	RefusedBy    map[string]int // keyed by reason
	WaitTimedOut int            // the caller's deadline passed in the gate
	CallTimedOut int            // the caller's deadline passed in the source
	LoadTimedOut int            // Scenario.LoadTimeout passed in the source

	// Background and BackgroundAnswered are the calls of Offered, and of Answered,
	// with priority Background.
	Background, BackgroundAnswered int

	// Goodput is the number of responses per second between From and To, for any
	// call. Possible is how many there could have been: in each stretch of ten mean
	// service times, no more than the source can serve, and no more than were
	// offered.
	Goodput  float64
	Possible float64

	// Latency is the time from arrival to end for the callers of admitted calls, and
	// SourceLatency is the time from admission to end. Calls that timed out in the
	// source count with the time until then.
	Latency, SourceLatency Quantiles

	// Limit is the gate's limit over time, if it has one.
	Limit Range
	// InFlight is the time-weighted mean of the calls in the source.
	InFlight float64
	// Capacity and Rate are time-weighted means: how many calls at once, and how many
	// per second, the source served at full speed.
	Capacity, Rate float64

	Settled Settled
}

// Quantiles are exact: each is an element of the sample.
type Quantiles struct{ P50, P99, Max time.Duration }

// A Range summarizes a number that changed over time.
type Range struct {
	Mean     float64
	Min, Max int
	Known    bool // false if there is no such number
}

// report creates the report of a finished run.
func (r *run) report(gate string) Report {
	for _, c := range r.calls {
		if c.verdict == answered {
			r.ends = append(r.ends, c.end)
		}
	}
	slices.Sort(r.ends)
	rep := Report{Scenario: r.s.Name, Gate: gate, Whole: r.phase("whole", 0, r.s.Duration)}
	for t := time.Duration(0); t < r.s.Duration; t += time.Second {
		rep.PerSecond = append(rep.PerSecond, r.answers(t, t+time.Second))
	}
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

// between returns the calls that arrived at or after from and before to.
func between(calls []*call, from, to time.Duration) []*call {
	arrived := func(c *call, t time.Duration) int { return cmp.Compare(c.arrival, t) }
	i, _ := slices.BinarySearchFunc(calls, from, arrived)
	j, _ := slices.BinarySearchFunc(calls, to, arrived)
	return calls[i:max(i, j)]
}

// answers returns how many responses came at or after from and before to.
func (r *run) answers(from, to time.Duration) int {
	i, _ := slices.BinarySearch(r.ends, from)
	j, _ := slices.BinarySearch(r.ends, to)
	return j - i
}

// quantiles sorts d and returns its quantiles.
func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	return Quantiles{P50: d[(len(d)-1)/2], P99: d[(len(d)-1)*99/100], Max: d[len(d)-1]}
}

// limitRange returns the range of the limits that calls found at their arrival. Each
// counts for the time until the next.
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

// mean returns the mean of f over time. f may change only with the source's
// schedules.
func (r *run) mean(from, to time.Duration, f func(time.Duration) float64) float64 {
	sum, t := 0.0, from
	i, _ := slices.BinarySearch(r.steps, from+1)
	for ; i < len(r.steps) && r.steps[i] < to; i++ {
		sum += f(t) * float64(r.steps[i]-t)
		t = r.steps[i]
	}
	return (sum + f(t)*float64(to-t)) / float64(to-from)
}

// possible returns how many calls could have succeeded.
func (r *run) possible(from, to time.Duration) float64 {
	slice := 10 * r.s.Source.ServiceAt(from)
	sum := 0.0
	for t := from; t < to; t += slice {
		end := min(t+slice, to)
		sum += min(float64(len(between(r.calls, t, end))), r.mean(t, end, r.s.Source.RateAt)*(end-t).Seconds())
	}
	return sum
}
