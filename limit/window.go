package limit

import (
	"math"
	"time"
)

// The constants of the measurement. Decision 0009 has the reasons and the measurements.
const (
	firstSkip    = 3                    // times the first limit: calls not measured at first, because the shortest end first
	minSamples   = 30                   // in a window
	windowSize   = 3                    // times the limit: also a minimum of samples in a window
	minFirst     = 12                   // instead of minSamples until a knee has been seen
	minWindow    = 5 * time.Millisecond // so that a scheduler pause cannot fill a window
	settleChange = 0.04                 // of the limit: after a larger change the source gets time to settle
	outlier      = 6.0                  // times the last mean: longer latencies are capped at this

	reachedShare = 0.05 // of a window spent at the limit: the limit counts as reached
	usedShare    = 0.5  // of a window spent at the limit: the limit counts as used, it decides how many calls run

	varianceGain = 0.1 // weight of a window in the running variance

	minDrops     = 5   // drops needed to cut the limit
	dropShare    = 0.1 // of the calls of a window: more drops cut the limit
	dropCut      = 0.7 // of the limit: what a cut leaves
	dropSame     = 0.7 // of the previous share of drops: a cut that leaves more has not helped
	dropMinority = 0.5 // share of drops: below it drops are tolerated if cuts do not help
	gaveUp       = 4.0 // times the base: a call abandoned after that counts as dropped
)

// A window is a stretch of time with one limit.
type window struct {
	settling bool          // calls that began before it are still running
	ready    time.Duration // while settling: when it ends, less the time for which the source stood still; 0 until known
	from     time.Duration // when its measurement began

	n, all, drops int     // calls measured; successful; dropped
	sum, squares  float64 // of the latencies
	area          float64 // calls in progress, summed over time
	full          float64 // time with the limit reached
	gap           gap     // the part of it since the last sign of life
}

// A summary is a window in a few numbers.
type summary struct {
	calls, latency, inFlight float64 // number of calls; mean latency; mean calls in progress
	noise                    float64 // relative standard error of the latency
	at                       float64 // number of calls in progress to which the latency belongs, see place
	full                     float64 // share of the time at the limit
}

// sum summarizes the window.
func (t *tuner) sum(now time.Duration) summary {
	w := &t.w
	n, between := float64(w.n), float64(now-w.from)
	s := summary{
		calls:    n,
		latency:  w.sum / n,
		inFlight: max(w.area/between, 1/n),
		full:     w.full / between,
	}
	v := max(0, w.squares/n/(s.latency*s.latency)-1)
	if t.latency == 0 {
		t.variance = v
	}
	t.variance += varianceGain * (v - t.variance)
	s.noise = math.Sqrt(max(t.variance, minVariance) / n)
	t.forgiveDrops(float64(w.drops) / float64(w.drops+w.all))
	return s
}

// forgiveDrops ends a window that did not have too many drops.
func (t *tuner) forgiveDrops(share float64) {
	t.dropped = 0
	t.tolerated = min(t.tolerated, share)
}

// began records the start of a call. It returns how long the source has stood still
// so far, which is to be passed to ended.
func (t *tuner) began(now time.Duration) (stood time.Duration) {
	if t.inFlight == 0 {
		t.idle(now)
	}
	t.advance(now)
	t.inFlight++
	return t.stall.stood
}

// ended records the end of a call that took held, and for which began returned
// stood.
func (t *tuner) ended(now, held, stood time.Duration, o Outcome) {
	t.advance(now)
	t.inFlight--
	if o == Success {
		t.answered(now)
	}
	still := t.stall.stood - stood
	worked := max(0, held-still)
	if o == Ignored && t.curve.base > 0 && float64(worked) > gaveUp*t.curve.base {
		o = Dropped
	}
	switch o {
	case Success:
		t.measure(now, worked)
	case Dropped:
		t.drop(now, worked, still)
	}
}

// advance brings the sums over time up to now.
func (t *tuner) advance(now time.Duration) {
	d := float64(max(0, now-t.moved)) // the clock is read before the lock is taken
	area := d * float64(t.inFlight)
	t.stall.area += area
	if !t.w.settling {
		t.w.area += area
		t.w.gap.area += area
		if t.inFlight >= t.limit {
			t.w.full += d
			t.w.gap.full += d
		}
	}
	t.moved = max(t.moved, now)
}

// measure records the latency of a successful call.
func (t *tuner) measure(now, held time.Duration) {
	w := &t.w
	w.all++
	if t.skip > 0 {
		t.skip--
		w.from, w.area, w.full = now, 0, 0
		return
	}
	if w.settling {
		t.checkSettled(now)
		return
	}
	x := float64(max(1, held))
	if t.latency > 0 {
		x = min(x, outlier*t.latency)
	}
	w.n++
	w.sum += x
	w.squares += x * x
	need := minSamples
	if !t.bent {
		need = minFirst
	}
	if w.n >= max(need, windowSize*t.limit) && now-w.from >= minWindow {
		t.decide(now)
	}
}

// checkSettled ends the settling phase one mean latency after the calls above the
// limit have ended, so that calls which ran together with them are not counted.
func (t *tuner) checkSettled(now time.Duration) {
	w := &t.w
	if w.ready == 0 && (t.inFlight <= t.limit || t.dry) {
		w.ready = now - t.stall.stood + time.Duration(t.latency)
	}
	if w.ready > 0 && now-t.stall.stood >= w.ready {
		w.settling = false
		w.from = now
	}
}

// checkDrops cuts the limit if too many calls were dropped. The curve does not
// change, because it is unknown how long a dropped call would have taken.
//
// A cut that does not lower the share of drops has not helped. If most calls still
// succeed, the drops are treated as a fault unrelated to load, and only a higher
// share of drops cuts the limit again.
func (t *tuner) checkDrops(now time.Duration) {
	w := &t.w
	share := float64(w.drops) / float64(w.drops+w.all)
	if w.drops < minDrops || share <= dropShare+t.tolerated {
		return
	}
	if t.dropped > 0 && share > dropSame*t.dropped && share < dropMinority {
		t.tolerated, t.dropped = share, 0
		t.aim(now, t.want)
		return
	}
	t.dropped = share
	t.flats, t.bent = 0, false // the knee has to be found again
	t.aim(now, dropCut*min(t.want, float64(t.limit)))
}
