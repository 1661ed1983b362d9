package periodic

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxSearch bounds the search for the next tick. The longest wait of an expression is
// for a weekday on 29 February, up to 40 years.
const maxSearch = 41 // years

// A cron is a parsed cron expression. It knows calendars and no time zones: its times
// are wall-clock times, written as times in UTC.
type cron struct {
	seconds, minutes, hours []int
	months                  [13]bool
	years                   map[int]bool // nil: all
	day, weekday            string       // the segments; "*": any
	firstYear               int          // with years: the first of them
}

// parseCron parses an expression of 5, 6 or 7 fields. Of these, 6 begin with seconds,
// and 7 end with years too.
func parseCron(text string) (*cron, error) {
	segments := strings.Fields(text)
	switch len(segments) {
	case 5:
		segments = append([]string{"0"}, append(segments, "*")...)
	case 6:
		segments = append(segments, "*")
	case 7:
	default:
		return nil, fmt.Errorf("%d fields; want 5 (minute hour day month weekday), 6 (seconds first) or 7 (and years last)", len(segments))
	}
	for i := range fields {
		parsed, err := fields[i].parse(segments[i])
		if err != nil {
			return nil, err
		}
		segments[i] = parsed
	}
	return newCron(segments)
}

// newCron evaluates checked segments.
func newCron(segments []string) (*cron, error) {
	c := &cron{day: segments[3], weekday: segments[5]}
	at := func(month, hour, minute, second int) time.Time {
		return time.Date(2000, time.Month(month), 1, hour, minute, second, 0, time.UTC)
	}
	var months []int
	for _, f := range [...]struct {
		pos  int
		into *[]int
		at   func(int) time.Time
	}{
		{0, &c.seconds, func(v int) time.Time { return at(1, 0, 0, v) }},
		{1, &c.minutes, func(v int) time.Time { return at(1, 0, v, 0) }},
		{2, &c.hours, func(v int) time.Time { return at(1, v, 0, 0) }},
		{4, &months, func(v int) time.Time { return at(v, 0, 0, 0) }},
	} {
		all, err := fields[f.pos].values(segments[f.pos], f.at)
		if err != nil {
			return nil, err
		}
		*f.into = all
	}
	for _, m := range months {
		c.months[m] = true
	}
	if segments[6] != "*" {
		years, err := fields[6].values(segments[6], func(v int) time.Time { return time.Date(v, 1, 1, 0, 0, 0, 0, time.UTC) })
		if err != nil {
			return nil, err
		}
		c.years = make(map[int]bool)
		for _, y := range years {
			c.years[y] = true
		}
		c.firstYear = years[0]
	}
	// Whether an item of a date is an error does not depend on the date.
	if _, err := c.matchesDay(at(1, 0, 0, 0)); err != nil {
		return nil, err
	}
	return c, nil
}

// matchesDay reports whether the expression has ticks on a day of one of its months. If
// both day fields are restricted, one of them has to match; but if one begins with *,
// both have to.
func (c *cron) matchesDay(d time.Time) (bool, error) {
	day, err := matches(c.day, 3, d)
	if err != nil {
		return false, err
	}
	weekday, err := matches(c.weekday, 5, d)
	if err != nil {
		return false, err
	}
	if strings.HasPrefix(c.day, "*") || strings.HasPrefix(c.weekday, "*") {
		return day && weekday, nil
	}
	return day || weekday, nil
}

// everyHour reports whether the expression has ticks in each hour of its days.
func (c *cron) everyHour() bool { return len(c.hours) == 24 }

// next returns the first tick after a wall-clock time, and false if there is none within
// maxSearch.
func (c *cron) next(after time.Time) (time.Time, bool) {
	y, m, d := after.Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	since := int(after.Sub(day) / time.Second)
	for end := day.AddDate(maxSearch, 0, 0); day.Before(end); since = -1 {
		switch {
		case c.years != nil && !c.years[day.Year()]:
			day = time.Date(day.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case !c.months[day.Month()]:
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if ok, _ := c.matchesDay(day); ok { // parseCron has seen the errors
			if s, ok := c.timeAfter(since); ok {
				return day.Add(time.Duration(s) * time.Second), true
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}, false
}

// timeAfter returns the first second of the day after another at which the expression
// has a tick.
func (c *cron) timeAfter(since int) (int, bool) {
	for _, h := range c.hours {
		if (h+1)*3600 <= since {
			continue
		}
		for _, m := range c.minutes {
			start := h*3600 + m*60
			if start+60 <= since {
				continue
			}
			if i, _ := slices.BinarySearch(c.seconds, since+1-start); i < len(c.seconds) {
				return start + c.seconds[i], true
			}
		}
	}
	return 0, false
}

// shortest returns the shortest time between two ticks on one day, or over a midnight
// if both days have ticks.
func (c *cron) shortest() time.Duration {
	first, _ := c.timeAfter(-1)
	last, least := first, 24*3600
	for s, ok := c.timeAfter(first); ok && least > 1; s, ok = c.timeAfter(s) {
		least, last = min(least, s-last), s
	}
	if least > 1 {
		least = min(least, 24*3600-last+first)
	}
	return time.Duration(least) * time.Second
}
