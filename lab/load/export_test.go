package load

import (
	"context"
	"time"
)

// RunOver is Run over other connections, paced by the runtime's timers, which work in
// a bubble.
func RunOver(ctx context.Context, s Spec, dial dialFunc) (Result, error) {
	return runOver(ctx, s, dial, newSleeper)
}

// AtLeast returns how many values are d or more.
func (h Histogram) AtLeast(d time.Duration) (n int64) {
	if h.h == nil {
		return 0
	}
	for _, b := range h.h.Distribution() {
		if b.From >= d.Microseconds() {
			n += b.Count
		}
	}
	return n
}

// Picks returns the URLs, by index, of the first n requests of s.
func Picks(s Spec, n int) []int {
	p := newPicker(s)
	picks := make([]int, n)
	for i := range picks {
		picks[i] = p.pick(int64(i))
	}
	return picks
}

// NewPacer returns the pacer that Run uses.
var NewPacer = newPacer
