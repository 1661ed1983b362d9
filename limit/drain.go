package limit

import (
	"time"

	"github.com/weir-go/weir/internal/spread"
)

// minRetry is the least expected wait that Error.RetryAfter is drawn from, for a Concurrency or an Adaptive.
const minRetry = 10 * time.Millisecond

// The mean covers roughly the last drainRounds calls of each permit, and at least
// drainWindow: each new one weighs 1/n, and the first n permits weigh the same. So it
// follows a change within that many calls, and the more permits there are, the less it
// varies with the lengths of single calls.
const (
	drainWindow = 16
	drainRounds = 4
)

// hangs is how many times the mean all permits must have been held for the source
// to count as hung. With holding times that vary a lot (an exponential distribution)
// a single permit exceeds it by chance one time in fifty, and two permits do so once
// in 3,000.
const hangs = 4

// A drain is the measured rate at which a set of permits is released. It does
// arithmetic on its arguments only and reads no clock. The zero drain has measured
// nothing.
type drain struct {
	held  float64 // running mean of the time a permit is held, in nanoseconds
	count int     // permits measured, up to the window
}

// observe records that one of that many permits was held for d.
func (m *drain) observe(d time.Duration, permits int) {
	m.count = min(m.count+1, max(drainWindow, drainRounds*min(permits, maxAdaptive)))
	m.held += (float64(max(0, d)) - m.held) / float64(m.count)
}

// wait returns the expected wait of a caller with ahead others before it, when all
// permits are in use. It returns 0 before anything has been measured.
//
// By Little's law a permit is released every held/permits and handed out again at
// once. So quiet, the time since a permit was last handed out, is already part of
// the first such interval. Every permit has been held for at least quiet: if that is
// far above the mean, the source hangs. wait then assumes that it hangs for the same
// time again, so that callers are rejected during the hang, and not only after the
// hung calls have ended and been measured.
func (m *drain) wait(ahead, permits int, quiet time.Duration) time.Duration {
	if m.count == 0 {
		return 0
	}
	interval := m.held / float64(permits)
	first := max(0, interval-float64(max(0, quiet)))
	if m.unknown(quiet) {
		first = float64(quiet)
	}
	return nanoseconds(first + interval*float64(ahead))
}

// unknown reports whether it is unknown when the next permit is released: none has been yet,
// or the source hangs.
func (m *drain) unknown(quiet time.Duration) bool {
	return m.count == 0 || float64(quiet) > hangs*m.held
}

// retry returns the RetryAfter of a rejection when the expected wait is w: at most most.
func (m *drain) retry(w, most time.Duration) time.Duration {
	if m.count == 0 {
		return min(spread.Unknown(), spread.Estimated(most, most)) // a low bound alone would be the same for all
	}
	return spread.Estimated(max(w, minRetry), most)
}

// nanoseconds rounds ns up to a Duration and caps it at forever.
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
