package command

import (
	"fmt"
	"strconv"
	"time"
)

// A Span is the range of a flag, both ends included.
type Span[T any] struct{ Least, Most T }

// Faults collects the faults of one command's flags, so that all can be reported at once.
// The flags are text for the same reason: the parser would stop at the first fault.
type Faults []error

// Add records a fault of a flag.
func (f *Faults) Add(flag, value, want string) {
	*f = append(*f, fmt.Errorf("--%s=%s: want %s", flag, value, want))
}

// Number parses an integer. It records a fault and returns 0 if that fails.
func (f *Faults) Number(flag, value string, in Span[int]) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < in.Least || n > in.Most {
		f.Add(flag, value, "a whole number, "+Numbers(in))
		return 0
	}
	return n
}

// Duration parses a duration with its unit. It records a fault and returns 0 if that fails.
func (f *Faults) Duration(flag, value string, in Span[time.Duration]) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < in.Least || d > in.Most {
		f.Add(flag, value, "a time such as 4s, "+Durations(in))
		return 0
	}
	return d
}

// Numbers returns a span of numbers in words.
func Numbers(s Span[int]) string { return fmt.Sprintf("%d to %d", s.Least, s.Most) }

// Durations returns a span of durations in words.
func Durations(s Span[time.Duration]) string { return brief(s.Least) + " to " + brief(s.Most) }

// brief formats a duration without the trailing zeros of Duration.String.
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
