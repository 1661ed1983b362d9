package periodic

import "time"

// A plan is what to do about the ticks after one that was decided.
type plan struct {
	tick time.Time // the first to submit; zero: none

	// The ticks to skip before it.
	skipped     int // at most MaxCounted
	first, last time.Time
}

// plan returns what to do at now about the ticks after base.
func (r *runner) plan(base, now time.Time) plan {
	newest, ok := r.spec.last(base, now)
	if !ok {
		return plan{}
	}
	var p plan
	edge := now.Add(-r.schedule.Grace) // ticks before it are missed
	missed, any := r.spec.last(base, edge.Add(-1))
	if !any {
		p.tick, _ = r.spec.next(base)
		return p
	}
	onTime := newest.After(missed)
	switch {
	case r.schedule.Missed == MissedAll:
		p.tick = r.nthLast(base, missed, r.schedule.CatchUp)
	case onTime:
		p.tick, _ = r.spec.next(missed)
	case r.schedule.Missed == MissedLatest:
		p.tick = missed
	}
	p.first, _ = r.spec.next(base)
	for t := p.first; !t.After(missed) && (p.tick.IsZero() || t.Before(p.tick)); {
		p.last = t
		if p.skipped++; p.skipped == MaxCounted {
			p.last = missed
			if !p.tick.IsZero() {
				p.last, _ = r.spec.last(base, p.tick.Add(-1))
			}
			break
		}
		if t, ok = r.spec.next(t); !ok {
			break
		}
	}
	return p
}

// nthLast returns the nth last tick after base and up to last, which is a tick, or the
// first if there are fewer.
func (r *runner) nthLast(base, last time.Time, n int) time.Time {
	for ; n > 1; n-- {
		t, ok := r.spec.last(base, last.Add(-1))
		if !ok {
			break
		}
		last = t
	}
	return last
}
