package periodic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are the same on machines without a database of zones
)

// descriptors are the names of expressions.
var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// A spec says when a schedule has its ticks. It is not altered.
type spec struct {
	text  string // canonical: programs with the same text and zone have the same ticks
	cron  *cron  // nil: every
	every time.Duration
	loc   *time.Location
}

const maxText = 256 // bytes of a Spec

// errNever is the fault of an expression without ticks.
var errNever = errors.New("it never has a tick")

// parseSpec parses the Spec and the Zone of a Schedule.
func parseSpec(text, zone string) (*spec, error) {
	s := &spec{loc: time.UTC}
	if len(text) > maxText {
		return nil, fmt.Errorf("%d bytes; want at most %d", len(text), maxText)
	}
	if err := s.setZone(zone); err != nil {
		return nil, err
	}
	s.text = strings.Join(strings.Fields(text), " ")
	name, rest, _ := strings.Cut(s.text, " ")
	expression := s.text
	switch lower := strings.ToLower(name); {
	case lower == "@every":
		return s, s.setEvery(rest)
	case descriptors[lower] != "" && rest == "":
		expression = descriptors[lower]
	case strings.HasPrefix(name, "@"):
		return nil, fmt.Errorf("%q is not known; want @every and a duration, or one of %v", name, descriptorNames())
	case strings.Contains(name, "="):
		return nil, errors.New("a zone in the expression; want it in Zone")
	}
	var err error
	if s.cron, err = parseCron(expression); err != nil {
		return nil, err
	}
	from := time.Now()
	if first := s.cron.firstYear; first > 0 && first < from.Year() {
		from = time.Date(first, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -1)
	}
	if _, ok := s.next(from); !ok {
		return nil, errNever
	}
	return s, nil
}

func (s *spec) setZone(zone string) (err error) {
	switch zone {
	case "":
	case "Local":
		return errors.New(`zone "Local" differs between machines; want a name such as "Europe/Berlin"`)
	default:
		if s.loc, err = time.LoadLocation(zone); err != nil {
			return fmt.Errorf("zone %q: %w", zone, err)
		}
	}
	return nil
}

// maxEvery bounds the duration of @every.
const maxEvery = 366 * 24 * time.Hour

func (s *spec) setEvery(text string) (err error) {
	s.every, err = time.ParseDuration(text)
	if err != nil || s.every%time.Second != 0 || s.every < time.Second || s.every > maxEvery {
		return fmt.Errorf("@every %s; want whole seconds, from 1s to %v", text, maxEvery)
	}
	s.text, s.loc = "@every "+s.every.String(), time.UTC
	return nil
}

func descriptorNames() []string {
	var names []string
	for name := range descriptors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// print tells definitions apart.
func (s *spec) print() string { return s.text + " " + s.loc.String() }

// next returns the first tick after an instant, and false if there is none in maxSearch
// years.
func (s *spec) next(after time.Time) (t time.Time, ok bool) {
	after = after.Truncate(time.Second)
	switch {
	case s.cron == nil:
		// The multiples of a duration since 1970 are the same for all instances.
		d := int64(s.every / time.Second)
		n := after.Unix()
		n -= ((n % d) + d) % d
		return time.Unix(n+d, 0).UTC(), true
	case s.cron.everyHour():
		t, ok = s.cron.nextByTime(after, s.loc)
	default:
		t, ok = s.cron.nextByWall(after, s.loc)
	}
	return t.UTC(), ok
}

// last returns the last tick after one instant and up to another, and false if there is
// none. next never decreases, so it searches for the last second that has one.
func (s *spec) last(after, until time.Time) (time.Time, bool) {
	after, until = after.Truncate(time.Second), until.Truncate(time.Second)
	if t, ok := s.next(after); !ok || t.After(until) {
		return time.Time{}, false
	}
	low, high := after.Unix(), until.Unix() // low has a tick after it, high has none
	for high-low > 1 {
		middle := low + (high-low)/2
		if t, ok := s.next(time.Unix(middle, 0)); ok && !t.After(until) {
			low = middle
		} else {
			high = middle
		}
	}
	return s.next(time.Unix(low, 0))
}

// shortest returns the shortest time between two ticks.
func (s *spec) shortest() time.Duration {
	if s.cron == nil {
		return s.every
	}
	return s.cron.shortest()
}
