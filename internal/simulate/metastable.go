package simulate

import (
	"fmt"
	"time"
)

// The times of [Metastable]: the trigger begins after stormBefore, lasts for stormFor, and the
// run goes on for stormAfter.
const (
	stormBefore = 10 * time.Second
	stormFor    = 30 * time.Second
	stormAfter  = 60 * time.Second
)

// A Storm is a scenario in which a source has a tenth of its capacity for 30 s, and its callers
// retry. Without protection it does not recover from that, because the retries keep it busy
// with calls whose callers have left.
type Storm struct {
	Workers int
	Load    float64 // of the capacity
	Aware   bool    // the source notices that callers leave
	Retry   Retry
	Exp     bool // exponential service times and arrivals; otherwise constant, and evenly spaced
	Fewer   bool // the trigger takes workers, instead of making them slower
}

// String returns the name of s.
func (s Storm) String() string {
	name := fmt.Sprintf("metastable, %d workers, load %g, %d retries", s.Workers, s.Load, s.Retry.Most)
	if s.Retry.Backoff > 0 {
		name += " with backoff"
	}
	for _, x := range []struct {
		is   bool
		name string
	}{{s.Retry.Obey, "Retry-After"}, {s.Aware, "aware"}, {s.Exp, "exponential"}, {s.Fewer, "fewer workers"}} {
		if x.is {
			name += ", " + x.name
		}
	}
	return name
}

// Scenario returns the scenario. Callers wait for 1 s, and a gate does not know that. The
// service time is 200 ms.
func (s Storm) Scenario() Scenario {
	src := Source{Capacity: Const(float64(s.Workers)), Service: Const(0.2), Unaware: !s.Aware}
	rate := s.Load * src.RateAt(0)
	a := Steady(rate)
	if s.Exp {
		src.Spread = Exponential
	} else {
		a = Even(rate, stormBefore+stormFor+stormAfter)
	}
	if s.Fewer {
		src.Capacity = Window(float64(s.Workers), stormBefore, stormBefore+stormFor, float64(s.Workers)/10)
	} else {
		src.Service = Window(0.2, stormBefore, stormBefore+stormFor, 2)
	}
	return Scenario{
		Name:     s.String(),
		Seed:     600,
		Duration: stormBefore + stormFor + stormAfter,
		Source:   src,
		Arrivals: a,
		Deadline: time.Second,
		Undated:  true,
		Hold:     true,
		Retry:    s.Retry,
		Phases:   []Mark{{"before", 0}, {"trigger", stormBefore}, {"first 5 s after", stormBefore + stormFor}, {"the rest after", stormBefore + stormFor + 5*time.Second}},
	}
}

// Stretch returns over how many seconds a rate of responses is known to a few percent.
func (s Storm) Stretch() int {
	switch {
	case s.Workers < 10:
		return 20
	case s.Workers < 100 && s.Exp:
		return 5
	}
	return 1
}

// Storms returns all of them.
func Storms() []Storm {
	var all []Storm
	for _, workers := range []int{2, 20, 300} {
		for _, load := range []float64{0.8, 0.95} {
			for _, retry := range []Retry{{Most: 3, Backoff: 100 * time.Millisecond}, {Most: 10}} {
				for i := range 8 {
					r := retry
					r.Obey = i&1 > 0
					all = append(all, Storm{Workers: workers, Load: load, Retry: r, Aware: i&2 > 0, Exp: i&4 > 0, Fewer: workers > 2 && i&4 > 0})
				}
			}
		}
	}
	return all
}

// Recovery returns the share of the goodput before the trigger that r has from 5 s after its
// end, and after how many seconds it has 0.95 of it again: the first second that begins a
// stretch of Stretch with that mean. It is negative if there is none. The goodput before the
// trigger is at most what was offered, without the retries.
func (s Storm) Recovery(r Report) (share float64, after int) {
	stretch, offered := s.Stretch(), s.Load*float64(s.Workers)/0.2
	from, end := int(stormBefore/time.Second), int((stormBefore+stormFor)/time.Second)
	mean := func(from, to int) (n float64) {
		for _, x := range r.PerSecond[from:to] {
			n += float64(x)
		}
		return n / float64(to-from)
	}
	before := min(mean(2, from), offered)
	share, after = mean(end+5, len(r.PerSecond))/before, -1
	for at := end; at+stretch <= len(r.PerSecond); at++ {
		if mean(at, at+stretch) >= 0.95*before {
			return share, at - end
		}
	}
	return share, after
}
