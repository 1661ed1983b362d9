package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is when calls arrive. It is an open loop: callers do not wait for each
// other.
type Arrivals struct {
	// Rate is the rate of a Poisson process: the arrivals per second at t.
	Rate func(t time.Duration) float64
	// Peak is the largest value that Rate returns.
	Peak float64
	// Trace, if it is not empty, is the time of each arrival; Rate is ignored.
	Trace []time.Duration
}

// Steady returns arrivals at a constant rate per second.
func Steady(rate float64) Arrivals { return Scheduled(Const(rate)) }

// Even returns arrivals with the same time between any two, for d.
func Even(rate float64, d time.Duration) Arrivals {
	var a Arrivals
	for i := 0; ; i++ {
		at := time.Duration((float64(i) + 0.5) / rate * float64(time.Second))
		if at >= d {
			return a
		}
		a.Trace = append(a.Trace, at)
	}
}

// Scheduled returns arrivals at a rate per second that changes in steps.
func Scheduled(s Schedule) Arrivals {
	a := Arrivals{Rate: s.At}
	for _, p := range s {
		a.Peak = max(a.Peak, p.Value)
	}
	return a
}

// Cyclic returns arrivals at a rate per second that follows a sine between low and
// high. It starts in the middle and rises.
func Cyclic(low, high float64, period time.Duration) Arrivals {
	return Arrivals{Peak: high, Rate: func(t time.Duration) float64 {
		return low + (high-low)*(1+math.Sin(2*math.Pi*float64(t)/float64(period)))/2
	}}
}

// Bursts returns arrivals at a rate per second that alternates between low, for
// forLow, and high, for forHigh.
func Bursts(low, high float64, forLow, forHigh time.Duration) Arrivals {
	return Arrivals{Peak: max(low, high), Rate: func(t time.Duration) float64 {
		if t%(forLow+forHigh) < forHigh {
			return high
		}
		return low
	}}
}

// stream returns the arrivals one by one, each later than the one before.
type stream struct {
	a     Arrivals
	rng   *rand.Rand
	exact float64 // seconds
	last  time.Duration
	n     int
}

// next returns the next arrival before end.
func (s *stream) next(end time.Duration) (time.Duration, bool) {
	at := time.Duration(0)
	switch {
	case len(s.a.Trace) > 0:
		if s.n == len(s.a.Trace) {
			return 0, false
		}
		at = s.a.Trace[s.n]
		s.n++
	case s.a.Peak <= 0:
		return 0, false
	default:
		at = s.thin(end)
	}
	s.last = max(at, s.last+1)
	return s.last, s.last < end
}

// thin draws candidates at the peak rate and keeps each with the probability
// Rate/Peak at that time (Lewis and Shedler, 1979).
func (s *stream) thin(end time.Duration) time.Duration {
	for {
		s.exact += s.rng.ExpFloat64() / s.a.Peak
		at := time.Duration(s.exact * float64(time.Second))
		if at >= end || s.rng.Float64()*s.a.Peak < s.a.Rate(at) {
			return at
		}
	}
}
