package limit

import (
	"math"
	"time"
)

// The tuner's constants, for when a window is summed up. Decision 0009 has the
// reasons and the measurements.
const (
	minMemory  = 4000.0 // calls over which the curve forgets, and at least
	limitsPast = 60.0   // times the limit
	staleAbove = 2.0    // times as fast is forgotten what lies above the knee

	jumpNoise   = 5.0 // standard errors above the curve that mean that the source has changed
	twiceNoise  = 2.5 // the same, in two windows one after the other
	jumpShare   = 1.2 // and at least this much slower
	jumpKeep    = 0.1 // of what was known before it
	maxUnlikely = 4   // such windows in a row, not used, that are passed over

	riseSum   = 4.0  // standard errors below the curve, summed up, that mean more capacity
	riseSlack = 0.25 // of them a window for nothing, times the slope
	riseNoise = 0.03 // standard error at least, for that

	step      = 0.5 // of the way to the knee, each window
	retreat   = 0.8 // of the limit, where nothing is flat or the ceiling is passed
	holdNoise = 1.5 // standard errors above the base at which growth waits

	lowShare   = 0.93 // of the knee: the limit of a low window
	highShare  = 0.3  // of the knee, by the slope, that a high window is above it
	probeEvery = 4    // windows from one of these to the next, times the slope, which counts
	slopeEvery = 2.0  // as that at most
	againNoise = 0.75 // standard errors below the curve times the slope, after which a high window is followed by another

	loadGain    = 0.1 // by which the running load follows a window's
	alwaysShare = 0.9 // of a window at the limit that leaves no doubt
	loadNoise   = 2.0 // standard errors by which a window's load differs by chance

	budgetShare = 0.75             // of the base: the queue's budget where MaxWait is not set
	minBudget   = time.Millisecond // of it at least
)

// growth is by how much the limit grows while the curve is flat, by the number
// of such windows in a row.
var growth = [...]float64{1.1, 1.25, 1.5}

// firstGrowth is growth before the first knee was seen.
var firstGrowth = [...]float64{1.25, 1.5}

// A tuner works out how many calls a source takes at once from how they go. It
// is plain arithmetic on its arguments; it reads no clock. Calls are measured
// in windows; at the end of each the tuner puts the mean latency into its curve
// and moves the limit towards the knee.
type tuner struct {
	floor, ceiling int     // of the limit
	headroom       float64 // above the knee, as a share of it
	maxBase        float64 // nanoseconds; a base above it is not healthy
	dry            bool    // the limit is not enforced

	limit    int     // now
	want     float64 // limit of a window that is no probe
	inFlight int
	moved    time.Duration // when inFlight last changed

	curve    curve
	variance float64 // of a latency, relative to its mean squared; running
	latency  float64 // mean of the last window
	skip     int     // calls not to be measured: the first to end are the shortest

	stall   stall
	w       window
	load    float64 // running mean of the calls in progress
	full    float64 // running mean of the share of time at the limit
	probing bool    // this window is a low or a high one
	wasLow  bool    // the last of them was a low one
	level   int     // windows since it
	flats   int     // windows in a row in which the limit grew
	bent    bool    // a knee has been seen

	miss     float64 // of the last window, in standard errors above the curve
	unlikely int     // windows in a row that were passed over
	rise     float64 // cumulative evidence of more capacity

	dropped   float64 // share of drops at the last cut for them
	tolerated float64 // share of drops that cuts do not help against
}

func newTuner(o AdaptiveOptions) *tuner {
	return &tuner{
		floor: o.Min, ceiling: o.Max, headroom: o.Headroom, maxBase: float64(o.MaxBaseline), dry: o.DryRun,
		limit: o.Initial, want: float64(o.Initial), skip: firstSkip * o.Initial, variance: 1,
		stall: stall{credit: stallCredit},
	}
}

// set ends the window, and begins the next with that limit.
func (t *tuner) set(now time.Duration, limit float64) {
	n := max(t.floor, min(int(math.Round(limit)), t.ceiling))
	change := math.Abs(float64(n - t.limit))
	t.w = window{settling: change > settleChange*float64(t.limit), from: now, gap: gap{from: now}}
	t.limit = n
}

// aim is set for a window that is no probe, and remembers the limit as the one
// that is wanted.
func (t *tuner) aim(now time.Duration, limit float64) {
	t.want = max(float64(t.floor), min(limit, float64(t.ceiling)))
	t.probing = false
	t.set(now, t.want)
}

// decide ends a window. The steps:
//
//  1. Sum it up: mean latency, calls in progress, whether the limit was
//     reached and used.
//  2. Compare it with the curve. If the source has changed, forget what no
//     longer holds of the curve.
//  3. Put the window into the curve, fade the older ones, and fit it.
//  4. Move the limit: towards the knee, or, where the source has become much
//     slower, by the share by which it did.
func (t *tuner) decide(now time.Duration) {
	s := t.sum(now)
	t.place(&s)
	t.latency = s.latency
	healthy := t.curve.base
	switch t.compare(s) {
	case asExpected:
	case slower:
		// If the source takes fewer calls now, that holds no more above the
		// new knee; if it is slower altogether, nowhere.
		t.curve.fade(jumpKeep, 0)
		t.curve.fade(jumpKeep, s.inFlight*healthy/s.latency)
		if s.full > usedShare {
			t.learn(s)
			t.cut(now, s, healthy)
			return
		}
	case inDoubt:
		t.aim(now, t.want)
		return
	case faster:
		t.curve.fade(0, t.curve.knee*(1-cellWidth/2))
	}
	t.learn(s)
	penalty := kneePenalty
	if !t.bent {
		penalty = firstKneePenalty
	}
	t.curve.fit(t.variance, penalty)
	t.move(now, s)
}

// learn puts a window into the curve.
func (t *tuner) learn(s summary) {
	memory := max(minMemory, limitsPast*float64(t.limit))
	t.curve.fade(math.Exp(-s.calls/memory), 0)
	t.curve.fade(math.Exp(-s.calls*(staleAbove-1)/memory), t.curve.knee)
	t.curve.add(s.at, s.latency, s.calls)
}

// place finds the number of calls in progress that the latency of a window is
// put down to. Where the limit decides how many run it is the limit. Where it
// does not, their number depends on the latency: by Little's law a window whose
// calls happened to take longer has more of them in progress, and reaches the
// limit more often, and the curve would rise where the source does not. So both
// are running means, unless they have really changed.
func (t *tuner) place(s *summary) {
	if s.full > alwaysShare {
		t.full = 1
	}
	if t.load == 0 || math.Abs(math.Log(s.inFlight/t.load)) > loadNoise*s.noise+loadGain {
		t.load = s.inFlight
	}
	t.full += loadGain * (s.full - t.full)
	t.load += loadGain * (s.inFlight - t.load)
	s.at = t.full*max(s.inFlight, float64(t.limit)) + (1-t.full)*min(t.load, float64(t.limit))
}

// A verdict is how a window compares with the curve.
type verdict int

const (
	asExpected verdict = iota
	slower             // much slower: the source has changed
	inDoubt            // much slower, but the limit was not used: one more is waited for
	faster             // faster above the knee, for several windows: there is more capacity
)

// compare compares a window with the curve. A source that became slower shows in
// one window far off or in two in a row. That it has more capacity shows in less
// than the noise of a window, and is summed up (a CUSUM: Page, Continuous
// Inspection Schemes, Biometrika 41, 1954).
func (t *tuner) compare(s summary) verdict {
	if t.curve.base == 0 {
		return asExpected
	}
	expected := t.curve.at(s.at)
	apart := math.Log(s.latency / expected)
	miss, before := apart/s.noise, t.miss
	t.miss = miss
	if (miss > jumpNoise || min(miss, before) > twiceNoise) && s.latency > jumpShare*expected {
		if s.full < usedShare && t.unlikely < maxUnlikely {
			t.unlikely++
			return inDoubt
		}
		t.unlikely, t.miss, t.rise = 0, 0, 0
		return slower
	}
	t.unlikely = 0
	if s.at > t.curve.knee*(1+cellWidth/2) {
		t.rise = max(0, t.rise-apart/max(s.noise, riseNoise)-riseSlack*t.curve.slope)
		if t.rise > riseSum {
			t.rise = 0
			return faster
		}
	}
	return asExpected
}

// cut lowers the limit after the source has become slower: to what Little's law
// says it takes if the calls queue, and at most by half, so that the next
// window tells whether they do. If the latency does not follow the limit down,
// the source is slower at any number of calls; the curve is flat then, and the
// limit grows back.
func (t *tuner) cut(now time.Duration, s summary, healthy float64) {
	t.curve.base, t.curve.knee = s.latency, s.at
	t.flats = 0
	t.aim(now, max(s.inFlight*healthy/s.latency, s.inFlight/2))
}

// move sets the limit by the curve.
func (t *tuner) move(now time.Duration, s summary) {
	c := &t.curve
	flats := t.flats
	t.flats = 0
	switch {
	case s.full < reachedShare || t.full < usedShare && !c.flat:
		// Nothing is learnt about a limit that nobody runs into.
		t.aim(now, t.want)
	case t.maxBase > 0 && c.base > t.maxBase:
		t.aim(now, min(t.want, s.inFlight)*retreat)
	case c.flat && flats > 0 && math.Log(s.latency/c.base) > holdNoise*s.noise:
		t.aim(now, t.want)
	case c.flat:
		by := growth[min(flats, len(growth)-1)]
		if !t.bent {
			by = firstGrowth[min(flats, len(firstGrowth)-1)]
		}
		t.flats = flats + 1
		t.aim(now, max(t.want, c.top, float64(t.limit)*by, float64(t.limit+1)))
	case c.steep && c.knee > 1:
		t.bent = true
		// At least one permit less: if rounding undid the retreat, nothing
		// would ever be seen below the knee.
		t.aim(now, min(t.want, c.knee*retreat, float64(t.limit-1)))
	default:
		t.bent = true
		t.alternate(now, t.want+step*(c.knee*(1+t.spare(now)/(c.slope*c.slope))-t.want))
	}
}

// fewPermits is a knee so low that a permit less is much of it.
const fewPermits = 8

// spare is the headroom. Before a source that stands still now and then it is
// none: what is in progress beyond the knee makes it no faster, and every call in
// it then is held up.
func (t *tuner) spare(now time.Duration) float64 {
	if t.stalls(now) && t.curve.knee >= fewPermits {
		return 0
	}
	return t.headroom
}

// beyond is how many of the calls in progress are beyond the knee: they queue in
// the source.
func (t *tuner) beyond(now time.Duration) int {
	if !t.stalls(now) || !t.bent || t.curve.flat {
		return 0
	}
	return max(0, t.inFlight-int(math.Ceil(t.curve.knee)))
}

// alternate begins a window with the limit wanted, or now and then one a little
// below the knee or above it: a curve is only known where both sides of its
// knee are seen. A low window costs the few per cent that it is below the
// knee, and only while more calls than that want to run. A high window that was
// faster than the curve says is followed by another, so that more capacity is
// not found out over minutes.
func (t *tuner) alternate(now time.Duration, want float64) {
	t.level++
	again := t.probing && !t.wasLow && t.miss < -againNoise*t.curve.slope
	if t.probing {
		t.level = 0
	}
	due := t.level >= probeEvery*int(min(t.curve.slope, slopeEvery))
	t.aim(now, want)
	if !due && !again {
		return
	}
	t.probing, t.wasLow = true, !t.wasLow && !again
	level := math.Round(t.want)
	if t.wasLow && level >= 2 {
		t.set(now, min(t.curve.knee*lowShare, level-1))
	} else {
		t.set(now, max(t.curve.knee*(1+highShare/t.curve.slope), level+1))
	}
}
