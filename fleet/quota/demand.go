package quota

import "time"

// A demand estimates how many callers came within the span up to now, from the counts
// of the current span and the previous one. The zero demand is ready to use. It has
// no lock.
type demand struct {
	start       time.Duration // of the current span
	now, before int
}

// note counts a caller.
func (d *demand) note(at, span time.Duration) {
	if at-d.start >= span {
		d.shift(at, span)
	}
	d.now++
}

// shift begins the span that contains at.
func (d *demand) shift(at, span time.Duration) {
	spans := (at - d.start) / span
	if spans > 1 {
		d.now = 0
	}
	d.before, d.now = d.now, 0
	d.start += spans * span
}

// last returns how many came within the span before at.
func (d *demand) last(at, span time.Duration) int {
	if at-d.start >= span {
		d.shift(at, span)
	}
	return d.now + int(float64(d.before)*float64(span-(at-d.start))/float64(span))
}

// A share is an instance's own part of a rate, for outages: a bucket of whole
// permits, and the time when the last one was added. The zero share is new. It has no
// lock.
type share struct {
	outage uint64 // the last outage in which it was used, from 1
	have   int
	at     time.Duration
}

// take takes a permit at now, or returns the time until the next one. Permits arrive
// at intervals of each, up to burst. An outage begins with at most one permit, and
// the bucket carries over from one outage to the next, so many short outages give no
// more than a long one.
func (s *share) take(outage uint64, now, each time.Duration, burst int) (wait time.Duration, ok bool) {
	if s.outage == 0 {
		*s = share{outage: outage, have: 1, at: now}
	}
	s.fill(now, each, burst)
	if s.outage != outage {
		s.outage = outage
		s.fill(now, each, 1)
	}
	if s.have == 0 {
		return s.at + each - now, false
	}
	s.have--
	return 0, true
}

// fill brings s up to now. A full bucket does not save a fraction of a permit.
func (s *share) fill(now, each time.Duration, burst int) {
	if come := (now - s.at) / each; come >= time.Duration(burst-s.have) {
		s.have, s.at = burst, now
	} else {
		s.have += int(come)
		s.at += come * each
	}
}

// next returns the earliest time, from now, at which a permit arrives.
func (s *share) next(now, each time.Duration) time.Duration { return max(0, s.at+each-now) }
