package simulate

import "time"

// Settled reports when, in a phase, a gate has found what the source can serve. That
// is when goodput over the following window is at least 90% of what is possible, and
// the limit stays between 0.8 and 2 times the capacity. The window is ten mean
// service times, or as long as the source needs for 400 calls if that is longer. With
// fewer calls, random variation would often miss the 90%.
type Settled struct {
	// After is the time from the start of the phase to the first such window,
	// in mean service times. It is negative if there is none.
	After float64
	// Kept is the share of the windows from then on that meet this condition.
	Kept float64
}

const (
	settledGoodput = 0.9
	settledLow     = 0.8
	settledHigh    = 2.0
	settledCalls   = 400
)

// settled checks windows that start a tenth of a window apart.
func (r *run) settled(from, to time.Duration) Settled {
	src := &r.s.Source
	s := Settled{After: -1}
	service := src.ServiceAt(from)
	window := 10 * service
	if rate := r.mean(from, to, src.RateAt); rate > 0 {
		window = max(window, time.Duration(settledCalls/rate*float64(time.Second)))
	}
	windows, good := 0, 0
	for t := from; t+window <= to; t += window / 10 {
		ok := r.good(t, t+window)
		if ok && s.After < 0 {
			s.After = float64(t-from) / float64(service)
		}
		if s.After >= 0 {
			windows++
			if ok {
				good++
			}
		}
	}
	if windows > 0 {
		s.Kept = float64(good) / float64(windows)
	}
	return s
}

// good reports whether a window meets the condition of Settled.
func (r *run) good(from, to time.Duration) bool {
	answers := r.answers(from, to)
	if float64(answers) < settledGoodput*r.possible(from, to) {
		return false
	}
	if _, ok := r.gate.(sampled); !ok {
		return true
	}
	for _, c := range between(r.calls, from, to) {
		capacity := float64(r.s.Source.CapacityAt(c.arrival))
		if l := float64(c.limit); l < settledLow*capacity || l > settledHigh*capacity {
			return false
		}
	}
	return true
}
