package command

import (
	"fmt"
	"strconv"
	"time"
)

// A Span is what a flag may be, both ends included.
type Span[T any] struct{ Least, Most T }

// Faults gathers what is wrong with one command's flags, so that all of it can
// be said at once. The flags come as text for the same reason: the parser
// would stop at the first.
type Faults []error

// Add notes what is wrong with a flag.
func (f *Faults) Add(flag, value, want string) {
	*f = append(*f, fmt.Errorf("--%s=%s: want %s", flag, value, want))
}

// Number reads a whole number. A fault is noted, and gives 0.
func (f *Faults) Number(flag, value string, in Span[int]) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < in.Least || n > in.Most {
		f.Add(flag, value, "a whole number, "+Numbers(in))
		return 0
	}
	return n
}

// Duration reads a time with its unit. A fault is noted, and gives 0.
func (f *Faults) Duration(flag, value string, in Span[time.Duration]) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < in.Least || d > in.Most {
		f.Add(flag, value, "a time such as 4s, "+Durations(in))
		return 0
	}
	return d
}

// Numbers is a span of numbers in words.
func Numbers(s Span[int]) string { return fmt.Sprintf("%d to %d", s.Least, s.Most) }

// Durations is a span of times in words.
func Durations(s Span[time.Duration]) string { return brief(s.Least) + " to " + brief(s.Most) }

// brief writes a duration without the zeros that Duration.String ends in.
func brief(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return d.String()
	}
}
