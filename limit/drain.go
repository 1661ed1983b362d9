package limit

import "time"

// Bounds of Error.RetryAfter as a Concurrency gives it.
const (
	minRetry     = 10 * time.Millisecond
	maxRetry     = time.Minute
	unknownRetry = time.Second
)

// drainWindow is over how many permits the mean is taken, roughly: each new
// one weighs 1/drainWindow, and the first ones weigh all the same.
const drainWindow = 16

// hangs is how many times the mean all permits must have been held to count as
// hung. With holding times that vary a lot (an exponential distribution) a
// single permit gets there one time in fifty, two permits once in 3,000.
const hangs = 4

// A drain is the measured speed at which a set of permits comes back. It is
// plain arithmetic on its arguments; it reads no clock. The zero drain has
// measured nothing.
type drain struct {
	held  float64 // running mean of the time a permit is held, in nanoseconds
	count int     // permits measured, up to drainWindow
}

// observe takes in that a permit was held for d.
func (m *drain) observe(d time.Duration) {
	if m.count < drainWindow {
		m.count++
	}
	m.held += (float64(max(0, d)) - m.held) / float64(m.count)
}

// wait returns how long it is expected to take until the caller behind ahead
// others gets one of the permits, all in use. It returns 0 before anything was
// measured.
//
// By Little's law a permit comes back every held/permits, and goes out again
// at once. So quiet, the time since one last went out, is gone from the first
// such interval. But every permit has been held for quiet at least: when that
// is far above the mean, the source hangs. It is then taken to hang for as
// long again, so that callers are refused while it lasts and not only once the
// hung calls have come back and been measured.
func (m *drain) wait(ahead, permits int, quiet time.Duration) time.Duration {
	if m.count == 0 {
		return 0
	}
	interval := m.held / float64(permits)
	first := max(0, interval-float64(max(0, quiet)))
	if float64(quiet) > hangs*m.held {
		first = float64(quiet)
	}
	return nanoseconds(first + interval*float64(ahead))
}

// retry returns the RetryAfter of a refusal where the expected wait is w.
func (m *drain) retry(w time.Duration) time.Duration {
	if m.count == 0 {
		return unknownRetry
	}
	return min(max(w, minRetry), maxRetry)
}

// nanoseconds rounds ns up to a Duration, and down to forever.
func nanoseconds(ns float64) time.Duration {
	if ns >= float64(forever) {
		return forever
	}
	d := time.Duration(ns)
	if float64(d) < ns {
		d++
	}
	return d
}
