package limit

import "time"

// Constants that define a stall. Decision 0009 has the reasons and the measurements.
const (
	stallLatency = 1.5               // times the last mean latency: a shorter silence may be calls in lockstep
	stallMissed  = 8.0               // responses due in the silence: with calls that end independently, this is chance once in 3,000 responses
	stallLongest = time.Second       // a longer silence is an outage
	stallShare   = 0.5               // stall time allowed per unit of working time
	stallMemory  = 20 * stallLongest // how long after a stall the next one is expected
	stallCredit  = 2 * stallLongest  // maximum stall time saved up
)

// A stall measures the stretches in which a source, or this process, stands still:
// no call ends, and then everything continues as before. The gap between two
// responses distinguishes a stall from a slow source.
type stall struct {
	since time.Duration // the last sign of life, moved forward by the time without any call
	area  float64       // calls in progress since then, summed over time
	drops int           // since then; how they count depends on how the silence ends

	stood  time.Duration // how long the source has stood still, in total
	credit time.Duration // stall time still allowed, as of filled
	filled time.Duration // when credit was last updated
}

// A gap is the part of a window since the last sign of life.
type gap struct {
	from       time.Duration
	area, full float64 // as in the window
}

// idle records that no call was in progress until now.
func (t *tuner) idle(now time.Duration) {
	d := max(0, now-t.moved)
	t.stall.since += d
	t.w.gap.from += d
}

// stalls reports whether the source has stalled recently.
func (t *tuner) stalls(now time.Duration) bool {
	return t.stall.stood > 0 && now-t.stall.filled < stallMemory
}

// due returns how many responses should have come since the last sign of life.
func (t *tuner) due() float64 { return t.stall.area / t.latency }

// silent reports whether the source seems to stand still.
func (t *tuner) silent(now time.Duration) bool {
	quiet := now - t.stall.since
	return t.latency > 0 && float64(quiet) > stallLatency*t.latency && t.due() > stallMissed &&
		quiet <= min(stallLongest, t.creditAt(now))
}

// creditAt returns how much stall time is allowed at now.
func (t *tuner) creditAt(now time.Duration) time.Duration {
	s := &t.stall
	worked := max(0, s.since-s.filled)
	return min(stallCredit, s.credit+time.Duration(stallShare*float64(worked)))
}

// answered ends a silence. If it was a stall, it is taken out of the measurement:
// the window and the calls in progress are shortened by it, and the calls that timed
// out in it are not counted.
func (t *tuner) answered(now time.Duration) {
	s := &t.stall
	if t.silent(now) {
		still := 1 - 1/t.due() // the share of the silence that counts as the stall
		g := &t.w.gap
		if !t.w.settling {
			t.w.area -= still * g.area
			t.w.full -= still * g.full
			t.w.from += time.Duration(still * float64(now-g.from))
		}
		d := time.Duration(still * float64(now-s.since))
		s.credit = t.creditAt(now) - d
		s.filled = now
		s.stood += d
		s.drops = 0
	}
	s.since, s.area = now, 0
	t.w.gap = gap{from: now}
	t.countDrops(now, 0)
}

// drop records that a call was dropped, during which the source worked and stood
// still for the given times.
func (t *tuner) drop(now, worked, still time.Duration) {
	switch {
	case still > worked:
		// Without the stall it would have had its response by now.
	case t.silent(now):
		t.stall.drops++
	default:
		if float64(worked) < stallLatency*t.latency {
			t.answered(now) // a fast rejection: the source responds
		}
		t.countDrops(now, 1)
	}
}

// countDrops counts n drops, and those held back during the silence.
func (t *tuner) countDrops(now time.Duration, n int) {
	n += t.stall.drops
	t.stall.drops = 0
	if n > 0 {
		t.w.drops += n
		t.checkDrops(now)
	}
}
