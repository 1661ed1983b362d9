package simulate

import (
	"cmp"
	"slices"
	"time"
)

// A Step is a value that holds from an instant on.
type Step struct {
	At    time.Duration // since the start of the run
	Value float64
}

// A Schedule is a value that changes in steps, in order of time. The first step's
// value also holds before it. The empty Schedule is always 0.
type Schedule []Step

// Const returns a Schedule that never changes.
func Const(v float64) Schedule { return Schedule{{Value: v}} }

// Steps returns the Schedule that starts with the first of values and changes to the
// next one after each interval.
func Steps(every time.Duration, values ...float64) Schedule {
	s := make(Schedule, len(values))
	for i, v := range values {
		s[i] = Step{At: time.Duration(i) * every, Value: v}
	}
	return s
}

// Window returns the Schedule that is inside between from and to, and v otherwise.
func Window(v float64, from, to time.Duration, inside float64) Schedule {
	return Schedule{{0, v}, {from, inside}, {to, v}}
}

// At returns the value at t.
func (s Schedule) At(t time.Duration) float64 {
	i, found := slices.BinarySearchFunc(s, t, func(p Step, t time.Duration) int { return cmp.Compare(p.At, t) })
	switch {
	case len(s) == 0:
		return 0
	case found:
		return s[i].Value
	}
	return s[max(0, i-1)].Value
}

// after returns the time of the first step after t.
func (s Schedule) after(t time.Duration) (time.Duration, bool) {
	i, _ := slices.BinarySearchFunc(s, t+1, func(p Step, t time.Duration) int { return cmp.Compare(p.At, t) })
	if i == len(s) {
		return 0, false
	}
	return s[i].At, true
}

// instants returns the times at which the schedules change.
func instants(schedules ...Schedule) []time.Duration {
	var at []time.Duration
	for _, s := range schedules {
		for _, p := range s {
			at = append(at, p.At)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}
