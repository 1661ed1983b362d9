package periodic

import "time"

// A wall-clock time is written as a time in UTC. Twice a year it has no instant or two
// in many zones. The rule depends on the expression:
//
// If it has ticks in every hour, it follows elapsed time: ticks that do not exist are
// left out, and the hour that is repeated has its ticks twice. So an expression for
// every 15 minutes has a tick every 15 minutes.
//
// All other expressions follow the wall clock, and each wall-clock time is one tick. A
// tick that does not exist is at the end of the gap, and several are one. A tick that
// exists twice is at its first instant. So a daily job runs once a day.

// maxPeriods bounds how many changes of the clock a search may cross: two a year, and
// some for changes of the law.
const maxPeriods = 4 * maxSearch

// wallOf returns the wall-clock time at an instant.
func wallOf(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// A period is a stretch of time in which a zone has one offset.
type period struct {
	start, end time.Time // zero: unbounded
	offset     time.Duration
}

func periodOf(t time.Time, loc *time.Location) period {
	t = t.In(loc)
	_, seconds := t.Zone()
	p := period{offset: time.Duration(seconds) * time.Second}
	p.start, p.end = t.ZoneBounds()
	return p
}

// at returns the instant of a wall-clock time in p, and whether it is in p.
func (p period) at(wall time.Time) (time.Time, bool) {
	t := wall.Add(-p.offset)
	return t, (p.start.IsZero() || !t.Before(p.start)) && (p.end.IsZero() || t.Before(p.end))
}

// instantOf returns the first instant of a wall-clock time, or the end of the gap that
// it is in.
func instantOf(wall time.Time, loc *time.Location) time.Time {
	middle := periodOf(wall, loc) // off by at most the offset
	near := make([]period, 0, 5)
	for p := middle; len(near) < 2 && !p.start.IsZero(); {
		p = periodOf(p.start.Add(-1), loc)
		near = append([]period{p}, near...)
	}
	near = append(near, middle)
	for p, n := middle, 0; n < 2 && !p.end.IsZero(); n++ {
		p = periodOf(p.end, loc)
		near = append(near, p)
	}
	for i, p := range near {
		if t, ok := p.at(wall); ok {
			return t
		}
		// The wall clock jumps from before this time to after it.
		if i > 0 && wall.Add(-near[i-1].offset).Compare(p.start) >= 0 && wall.Add(-p.offset).Before(p.start) {
			return p.start
		}
	}
	return wall.Add(-middle.offset)
}

// nextByWall returns the next tick of an expression that follows the wall clock.
func (c *cron) nextByWall(after time.Time, loc *time.Location) (time.Time, bool) {
	wall := wallOf(after, loc)
	for range 3 {
		next, ok := c.next(wall)
		if !ok {
			return time.Time{}, false
		}
		if t := instantOf(next, loc); t.After(after) {
			return t, true
		}
		// It is in an hour that is repeated, and was a tick the first time. Go on after
		// the latest wall-clock time before the repetition.
		p := periodOf(after, loc)
		wall = wallOf(p.start.Add(-1), loc)
		if next.After(wall) {
			wall = next
		}
	}
	return time.Time{}, false
}

// nextByTime returns the next tick of an expression that follows elapsed time.
func (c *cron) nextByTime(after time.Time, loc *time.Location) (time.Time, bool) {
	wall := wallOf(after, loc)
	for range maxPeriods {
		p := periodOf(after, loc)
		next, ok := c.next(wall)
		if !ok {
			return time.Time{}, false
		}
		if t := next.Add(-p.offset); p.end.IsZero() || t.Before(p.end) {
			return t, true
		}
		after = p.end
		wall = wallOf(after, loc).Add(-1)
	}
	return time.Time{}, false
}
