package limit

import "time"

// Constants of a storm. Decision 0158 has the reasons and the measurements.
const (
	stormEnter = 8   // calls that are judged together before a storm begins
	stormSoon  = 16  // the most calls that are judged together in a storm
	stormRound = 128 // the most calls between two changes that raise the limit

	stormLate   = 0.5  // share of late calls above which the limit falls
	stormProof  = 0.25 // share of calls in time that shows something
	stormLonger = 1.5  // times the usual time: a call that is younger is not late, and if calls in time take no longer, the source is not congested

	stormLeast = 0.25 // of the limit is left when most calls are late,
	stormMost  = 0.5  // up to this
	stormGoal  = 0.5  // of the callers' patience: how long calls may take while the limit grows fast
	stormClose = 0.75 // of the callers' patience: if calls take longer, the limit falls a little
	stormFast  = 2.0  // the most by which the limit grows at a time
	stormSlow  = 1.25 // by how much it grows where calls take longer than the goal,
	stormEvery = 8    // after that many rounds
	stormSeen  = 0.75 // factor of a change from which on its effect shows
	stormSame  = 0.9  // of the time that calls took before: if they take less, a lower limit has helped

	stormEnd = 30 * time.Second // without a late call, and without a caller that waits

	usualWindow = 32       // calls of which the mean is one observation of the usual time
	usualFalls  = 0.5      // weight of an observation below the usual time
	usualRises  = 1.0 / 16 // and above: a storm that builds up must not count as usual

	// Callers that have waited for their permit have less patience left for the call.
	patienceRises = 0.5
	patienceFalls = 1.0 / 64
)

// A storm lowers a fixed limit while most calls end too late to be of use, because their
// callers have left. A source that takes calls in order then works for no caller, and retries
// keep it so for as long as the limit is high. The limit falls until calls end in time
// again, and then grows as long as they do.
//
// It does arithmetic on its arguments only and reads no clock. The zero storm is none.
type storm struct {
	count uint64 // storms that have begun
	lates uint64 // calls that were late

	limit int           // how many units may be in use; 0 without a storm
	since time.Duration // of the last change: calls that began earlier say nothing about it
	busy  time.Duration // when a call was late, or a caller had to wait, for the last time

	now    judged  // the last few calls
	round  judged  // and those before them since the last change or the end of a round
	rounds int     // without a change
	before float64 // how long calls in time took before the limit fell, 0 if that is unknown or the limit has risen since
	after  judged  // calls since then, if before is not 0

	patience float64 // age at which calls were late whose callers had hardly waited before
	usual    float64 // how long calls take without a storm, 0 while that is unknown
	seen     judged  // calls in the current observation of it
}

// A Storm is the beginning or the end of a retry storm at a limiter, see [Concurrency].
type Storm struct {
	Limiter string // Name in the limiter's options
	Began   bool   // false: it is over
	Limit   int    // units that may be in use from now on
}

// bounds are the limit of a pool without a storm, the least that a storm may make of it, and
// the units in use and the callers that wait.
type bounds struct{ limit, least, inUse, waiting int }

// judged are calls that have ended in time or were late.
type judged struct {
	inTime, late int
	took         float64 // by the calls in time, in total
}

func (j judged) n() int { return j.inTime + j.late }

func (j judged) plus(k judged) judged {
	return judged{j.inTime + k.inTime, j.late + k.late, j.took + k.took}
}

// mean returns the mean time of the calls in time, 0 if they are too few.
func (j judged) mean() float64 {
	if j.inTime == 0 || float64(j.inTime) < stormProof*float64(j.n()) {
		return 0
	}
	return j.took / float64(j.inTime)
}

// tooOld reports whether a call of that age is late, once its callers have left.
func (s *storm) tooOld(age time.Duration) bool { return float64(age) >= stormLonger*s.usual }

// isLate counts a call that began at since, is too old, and whose callers have left. It
// returns the limit that holds from now on.
func (s *storm) isLate(since, now time.Duration, b bounds) int {
	s.lates++
	s.busy = now
	age, weight := float64(now-since), patienceFalls
	if age > s.patience {
		weight = patienceRises
	}
	s.patience += weight * (age - s.patience)
	return s.judge(judged{late: 1}, since, now, b)
}

// isInTime counts a call that began at since and has ended in time. It returns the limit that
// holds from now on.
func (s *storm) isInTime(since, now time.Duration, b bounds) int {
	j := judged{inTime: 1, took: float64(now - since)}
	s.observe(j)
	return s.judge(j, since, now, b)
}

// observe learns how long calls usually take. In a storm they take longer.
func (s *storm) observe(j judged) {
	s.seen = s.seen.plus(j)
	mean := s.seen.mean()
	if s.usual == 0 {
		s.usual = mean
	}
	if s.seen.n() < usualWindow {
		return
	}
	weight := usualRises
	switch {
	case mean < s.usual:
		weight = usualFalls
	case s.limit > 0:
		weight = 0
	}
	s.usual += weight * (mean - s.usual)
	s.seen = judged{}
}

// judge changes the limit once enough calls have been judged since the last change. It
// returns the limit that holds from now on.
func (s *storm) judge(j judged, since, now time.Duration, b bounds) int {
	switch {
	case s.limit > 0 && now-s.busy > stormEnd:
		s.change(0, now)
	case since >= s.since:
		s.now = s.now.plus(j)
		s.decide(now, b)
	}
	return s.of(b.limit)
}

// decide is judge for a call that counts. The steps:
//
//  1. Judge the last few calls together: if most were late, the limit falls.
//  2. At the end of a round, which has about as many calls as the limit, the limit may rise.
func (s *storm) decide(now time.Duration, b bounds) {
	few, round := stormEnter, stormEnter
	if s.limit > 0 {
		few, round = max(1, min(s.limit/2, stormSoon)), min(s.limit, stormRound)
	}
	if s.now.n() < few {
		return
	}
	last := s.now
	s.round, s.now = s.round.plus(last), judged{}
	s.learn(last)
	if s.congested(last) {
		if b.limit > b.least {
			s.fall(last.mean(), now, b)
		}
		return
	}
	if s.round.n() < round {
		return
	}
	mean := s.round.mean()
	s.round = judged{}
	s.rounds++
	if s.limit > 0 && mean > 0 {
		s.adjust(mean, now, b)
	}
}

// congested reports whether most calls of j were late because there were too many of them.
// If some of them took no longer than usual, the others were late for another reason.
func (s *storm) congested(j judged) bool {
	mean := j.mean()
	return float64(j.late) > stormLate*float64(j.n()) && (mean == 0 || mean > stormLonger*s.usual)
}

// learn finds out whether a lower limit has helped, from how long calls in time take since. Where
// the number of calls decides how long they take, that falls as the number does. Otherwise it
// is the usual time now.
func (s *storm) learn(j judged) {
	if s.before == 0 {
		return
	}
	if s.after = s.after.plus(j); s.after.n() < stormEnter {
		return
	}
	if mean := s.after.mean(); mean > stormSame*s.before {
		s.usual = mean
	}
	s.before, s.after = 0, judged{}
}

// fall lowers the limit because most calls are late: by half, and by up to three quarters where
// callers wait for much longer than a call usually takes. The source has to work through the
// calls in it before that has an effect, while a limit that is too low grows fast.
func (s *storm) fall(mean float64, now time.Duration, b bounds) {
	n := min(b.limit, b.inUse)
	if s.limit == 0 {
		s.count++
	} else {
		n = min(s.limit, n)
	}
	if s.before == 0 {
		s.before = mean
	}
	s.change(max(b.least, int(float64(n)*max(stormLeast, min(stormMost, s.usual/s.patience)))), now)
}

// adjust sets the limit after a round without congestion, in which calls in time took mean. It
// rises only if callers have waited for it.
func (s *storm) adjust(mean float64, now time.Duration, b bounds) {
	goal := max(stormGoal*s.patience, stormLonger*s.usual)
	by := 1.0
	switch {
	case mean > max(stormClose*s.patience, stormLonger*s.usual):
		by = max(stormMost, goal/mean)
	case s.busy <= s.since && b.waiting == 0:
	case mean < goal:
		by = min(stormFast, goal/mean)
	case s.rounds > stormEvery:
		by = stormSlow
	}
	n := int(float64(s.limit) * by)
	switch {
	case by > 1:
		n = max(n, s.limit+1)
	case by < 1:
		n = max(n, b.least)
	}
	switch {
	case n == s.limit:
		return
	case n >= b.limit:
		n = 0
	}
	switch {
	case by > 1:
		s.before, s.after = 0, judged{}
	case by <= stormSeen && s.before == 0:
		s.before = mean
	}
	s.change(n, now)
}

// change begins the first round with that limit, 0 for none.
func (s *storm) change(limit int, now time.Duration) {
	s.limit, s.since = limit, now
	s.now, s.round, s.rounds = judged{}, judged{}, 0
	if limit == 0 {
		s.before, s.after = 0, judged{}
	}
}

// atLeast raises the limit of a storm to a new bound least, and ends the storm if that is all of
// the limit.
func (s *storm) atLeast(least, limit int, now time.Duration) {
	switch {
	case s.limit == 0:
	case least >= limit:
		s.change(0, now)
	case s.limit < least:
		s.change(least, now)
	}
}

// of returns the limit that holds, of limit units.
func (s *storm) of(limit int) int {
	if s.limit > 0 {
		return min(s.limit, limit)
	}
	return limit
}
