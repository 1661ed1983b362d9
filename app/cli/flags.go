package cli

import (
	"fmt"
	"strconv"
	"time"
)

// A span is what a flag may be, both ends included.
type span[T any] struct{ least, most T }

// faults gathers what is wrong with one command's flags, so that all of it can
// be said at once. The flags come as text for the same reason: the parser
// would stop at the first.
type faults []error

func (f *faults) add(flag, value, want string) {
	*f = append(*f, fmt.Errorf("--%s=%s: want %s", flag, value, want))
}

// number reads a whole number. A fault is noted, and gives 0.
func (f *faults) number(flag, value string, in span[int]) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < in.least || n > in.most {
		f.add(flag, value, "a whole number, "+numbers(in))
		return 0
	}
	return n
}

// duration reads a time with its unit. A fault is noted, and gives 0.
func (f *faults) duration(flag, value string, in span[time.Duration]) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < in.least || d > in.most {
		f.add(flag, value, "a time such as 4s, "+durations(in))
		return 0
	}
	return d
}

func numbers(s span[int]) string { return fmt.Sprintf("%d to %d", s.least, s.most) }

func durations(s span[time.Duration]) string { return brief(s.least) + " to " + brief(s.most) }

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
