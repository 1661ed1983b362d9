package limit

import (
	"math"
	"time"
)

// The tuner's constants, used at the end of a window. Decision 0009 has the reasons
// and the measurements.
const (
	minMemory  = 4000.0 // calls over which the curve forgets, at least
	limitsPast = 60.0   // times the limit: also a minimum of such calls
	staleAbove = 2.0    // how many times faster observations above the knee fade

	jumpNoise   = 5.0 // standard errors above the curve that mean that the source has changed
	twiceNoise  = 2.5 // the same, for two consecutive windows
	jumpShare   = 1.2 // times the expected latency: also required for a change
	jumpKeep    = 0.1 // of the earlier observations is kept after a change
	maxUnlikely = 4   // consecutive windows of this kind that are ignored while the limit is not used

	riseSum   = 4.0  // standard errors below the curve, summed over windows, that mean more capacity
	riseSlack = 0.25 // times the slope: subtracted from that sum in each window
	riseNoise = 0.03 // smallest standard error used for that sum

	step      = 0.5 // of the way to the knee, each window
	retreat   = 0.8 // of the limit, if no flat part is observed or the latency ceiling is exceeded
	holdNoise = 1.5 // standard errors above the base at which growth pauses

	lowShare   = 0.93 // of the knee: the limit of a low window
	highShare  = 0.3  // of the knee, divided by the slope: how far above the knee a high window is
	probeEvery = 4    // windows between two such windows, times the slope
	slopeEvery = 2.0  // largest slope used for that
	againNoise = 0.75 // standard errors below the curve, times the slope, after which one high window follows another

	loadGain    = 0.1 // weight of a window in the running load
	alwaysShare = 0.9 // of a window spent at the limit: the limit clearly decides how many calls run
	loadNoise   = 2.0 // standard errors by which the load of a window differs by chance

	budgetShare = 0.75             // of the base: the queue's budget if MaxWait is not set
	minBudget   = time.Millisecond // smallest such budget
)

// growth is the factor by which the limit grows while the curve is flat, by the
// number of consecutive flat windows.
var growth = [...]float64{1.1, 1.25, 1.5}

// firstGrowth replaces growth until the first knee has been seen.
var firstGrowth = [...]float64{1.25, 1.5}

// A tuner determines how many concurrent calls a source can handle from their
// latency and outcome. It does arithmetic on its arguments only and reads no clock.
// Calls are measured in windows. At the end of a window the tuner adds the mean
// latency to its curve and moves the limit towards the knee.
type tuner struct {
	floor, ceiling int     // of the limit
	headroom       float64 // above the knee, as a share of it
	maxBase        float64 // nanoseconds; a base above it is not healthy
	dry            bool    // the limit is not enforced

	limit    int     // current
	want     float64 // limit outside of probes
	inFlight int
	moved    time.Duration // when inFlight last changed

	curve    curve
	variance float64 // of a latency, relative to its mean squared; running
	latency  float64 // mean of the last window
	skip     int     // calls still to be excluded: the first to end are the shortest

	stall   stall
	w       window
	load    float64 // running mean of the calls in progress
	full    float64 // running mean of the share of time at the limit
	probing bool    // this window is a probe, low or high
	wasLow  bool    // the last probe was low
	level   int     // windows since the last probe
	flats   int     // consecutive windows in which the limit grew
	bent    bool    // a knee has been seen

	miss     float64 // of the last window, in standard errors above the curve
	unlikely int     // consecutive windows that were ignored
	rise     float64 // cumulative evidence of more capacity

	dropped   float64 // share of drops at the last cut because of drops
	tolerated float64 // share of drops that cuts do not reduce
}

func newTuner(o AdaptiveOptions) *tuner {
	return &tuner{
		floor: o.Min, ceiling: o.Max, headroom: o.Headroom, maxBase: float64(o.MaxBaseline), dry: o.DryRun,
		limit: o.Initial, want: float64(o.Initial), skip: firstSkip * o.Initial, variance: 1,
		stall: stall{credit: stallCredit},
	}
}

// set ends the window, and begins the next one with that limit.
func (t *tuner) set(now time.Duration, limit float64) {
	n := max(t.floor, min(int(math.Round(limit)), t.ceiling))
	change := math.Abs(float64(n - t.limit))
	t.w = window{settling: change > settleChange*float64(t.limit), from: now, gap: gap{from: now}}
	t.limit = n
}

// aim is set for a window that is not a probe, and stores the limit in want.
func (t *tuner) aim(now time.Duration, limit float64) {
	t.want = max(float64(t.floor), min(limit, float64(t.ceiling)))
	t.probing = false
	t.set(now, t.want)
}

// decide ends a window. The steps:
//
//  1. Summarize it: mean latency, calls in progress, whether the limit was
//     reached and used.
//  2. Compare it with the curve. If the source has changed, fade the
//     observations that no longer hold.
//  3. Add the window to the curve, fade the older ones, and fit the curve.
//  4. Move the limit: towards the knee, or, if the source has become much
//     slower, down in the same proportion.
func (t *tuner) decide(now time.Duration) {
	s := t.sum(now)
	t.place(&s)
	t.latency = s.latency
	healthy := t.curve.base
	switch t.compare(s) {
	case asExpected:
	case slower:
		// If the source can handle fewer calls now, the curve is wrong above the
		// new knee; if it is slower at any number of calls, it is wrong everywhere.
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

// learn adds a window to the curve.
func (t *tuner) learn(s summary) {
	memory := max(minMemory, limitsPast*float64(t.limit))
	t.curve.fade(math.Exp(-s.calls/memory), 0)
	t.curve.fade(math.Exp(-s.calls*(staleAbove-1)/memory), t.curve.knee)
	t.curve.add(s.at, s.latency, s.calls)
}

// place finds the number of calls in progress to which the latency of a window
// belongs. If the limit decides how many calls run, that is the limit. If not, their
// number depends on the latency: by Little's law, a window whose calls happened to
// take longer has more of them in progress and reaches the limit more often. The
// curve would then rise although the source is no slower. So both are running means,
// unless the load has clearly changed.
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
	inDoubt            // much slower, but the limit was not used: wait for another window
	faster             // faster above the knee, for several windows: there is more capacity
)

// compare compares a window with the curve. A source counts as slower after one
// window that is far off or two consecutive ones that are less so. Additional
// capacity changes a window by less than its noise, so the differences are summed (a
// CUSUM: Page, Continuous Inspection Schemes, Biometrika 41, 1954).
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

// cut lowers the limit after the source has become slower. It assumes that calls
// queue in the source: the new limit follows from Little's law, but is at least half
// the calls in progress. The next window shows whether the assumption holds. If the
// latency does not fall with the limit, the source is slower at any number of calls;
// the curve is then flat, and the limit grows back.
func (t *tuner) cut(now time.Duration, s summary, healthy float64) {
	t.curve.base, t.curve.knee = s.latency, s.at
	t.flats = 0
	t.aim(now, max(s.inFlight*healthy/s.latency, s.inFlight/2))
}

// move sets the limit according to the curve.
func (t *tuner) move(now time.Duration, s summary) {
	c := &t.curve
	flats := t.flats
	t.flats = 0
	switch {
	case s.full < reachedShare || t.full < usedShare && !c.flat:
		// A limit that is not reached shows nothing about the knee.
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
		// At least one permit less: if rounding undid the retreat, there would
		// never be an observation below the knee.
		t.aim(now, min(t.want, c.knee*retreat, float64(t.limit-1)))
	default:
		t.bent = true
		t.alternate(now, t.want+step*(c.knee*(1+t.spare(now)/(c.slope*c.slope))-t.want))
	}
}

// fewPermits is a knee so low that one permit is a large part of it.
const fewPermits = 8

// spare returns the headroom. For a source that has stalled recently it is 0, because
// calls beyond the knee add no throughput, and a stall delays every call in progress.
func (t *tuner) spare(now time.Duration) float64 {
	if t.stalls(now) && t.curve.knee >= fewPermits {
		return 0
	}
	return t.headroom
}

// beyond returns how many of the calls in progress are beyond the knee and so queue
// in the source. It returns 0 unless the source has stalled recently.
func (t *tuner) beyond(now time.Duration) int {
	if !t.stalls(now) || !t.bent || t.curve.flat {
		return 0
	}
	return max(0, t.inFlight-int(math.Ceil(t.curve.knee)))
}

// alternate begins a window with the wanted limit or, every few windows, a probe: a
// window with a limit a little below or above the knee. Probes are needed because the
// knee is only known if both sides of it are observed. A low window costs a few
// percent of throughput, and only if more calls than that want to run. A high window
// that was faster than the curve predicts is followed by another one, so that new
// capacity is not discovered only after minutes.
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
