package limit

import "time"

// How stalls are recognised. Decision 0009 has the reasons and the measurements.
const (
	stallLatency = 1.5               // times the last mean latency: a silence that short may be calls in step
	stallMissed  = 8.0               // answers that were due in it: where calls end independently, chance leaves out as many once in 3,000 answers
	stallLongest = time.Second       // a longer silence is an outage
	stallShare   = 0.5               // of the time in which the source works, that it may stand still
	stallMemory  = 20 * stallLongest // for which one is reckoned with after the last
	stallCredit  = 2 * stallLongest  // of that, saved up
)

// A stall is the measurement of stretches in which a source, or this process,
// stands still: nothing is answered, and then all goes on as before. The gap
// between two responses tells it from a slow source.
type stall struct {
	since time.Duration // the last sign of life, later by the time without any call
	area  float64       // calls in progress since then, summed over time
	drops int           // since then; what they mean depends on how the silence ends

	stood  time.Duration // how long the source has stood still, altogether
	credit time.Duration // how much longer it may
	filled time.Duration // when the credit was last brought up to date
}

// A gap is the part of a window since the last sign of life.
type gap struct {
	from       time.Duration
	area, full float64 // as in the window
}

// idle takes in that nothing was in progress up to now.
func (t *tuner) idle(now time.Duration) {
	d := max(0, now-t.moved)
	t.stall.since += d
	t.w.gap.from += d
}

// stalls reports whether the source stands still now and then.
func (t *tuner) stalls(now time.Duration) bool {
	return t.stall.stood > 0 && now-t.stall.filled < stallMemory
}

// due returns how many answers should have come since the last sign of life.
func (t *tuner) due() float64 { return t.stall.area / t.latency }

// silent reports whether the source seems to stand still.
func (t *tuner) silent(now time.Duration) bool {
	quiet := now - t.stall.since
	return t.latency > 0 && float64(quiet) > stallLatency*t.latency && t.due() > stallMissed &&
		quiet <= min(stallLongest, t.creditAt(now))
}

// creditAt returns for how long the source may stand still.
func (t *tuner) creditAt(now time.Duration) time.Duration {
	s := &t.stall
	worked := max(0, s.since-s.filled)
	return min(stallCredit, s.credit+time.Duration(stallShare*float64(worked)))
}

// answered ends a silence. If it was a stall, the clock stood still meanwhile:
// the window is shortened, as are the calls that were in progress, and calls that
// timed out in it say nothing.
func (t *tuner) answered(now time.Duration) {
	s := &t.stall
	if t.silent(now) {
		still := 1 - 1/t.due() // the share of the silence that is too much
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

// drop takes in that a call was dropped for which the source worked, and stood
// still, for so long.
func (t *tuner) drop(now, worked, still time.Duration) {
	switch {
	case still > worked:
		// It would have had its answer by now.
	case t.silent(now):
		t.stall.drops++
	default:
		if float64(worked) < stallLatency*t.latency {
			t.answered(now) // a refusal: the source is there
		}
		t.countDrops(now, 1)
	}
}

// countDrops counts that many drops, and those that waited for the silence to
// end.
func (t *tuner) countDrops(now time.Duration, n int) {
	n += t.stall.drops
	t.stall.drops = 0
	if n > 0 {
		t.w.drops += n
		t.checkDrops(now)
	}
}
