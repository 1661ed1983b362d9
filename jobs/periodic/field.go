package periodic

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// A field is one of the fields of a cron expression.
type field struct {
	name        string
	pos         int // gronx's number of it
	least, most int
	names       []string       // of its values, from least
	special     *regexp.Regexp // items of dates, besides numbers, ranges and steps
}

// The fields of an expression with seven.
var fields = [...]field{
	{name: "second", pos: 0, most: 59},
	{name: "minute", pos: 1, most: 59},
	{name: "hour", pos: 2, most: 23},
	{name: "day of the month", pos: 3, least: 1, most: 31, special: regexp.MustCompile(`^(?:L|(\d{1,2})W)$`)},
	{name: "month", pos: 4, least: 1, most: 12, names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")},
	{name: "day of the week", pos: 5, most: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), special: regexp.MustCompile(`^(\d)(?:L|#[1-5])$`)},
	{name: "year", pos: 6, least: 1970, most: 2099},
}

// plainItem matches *, a number or a range, with or without a step.
var plainItem = regexp.MustCompile(`^(?:\*|(\d{1,4})(?:-(\d{1,4}))?)(?:/(\d{1,4}))?$`)

// parse checks the text of a field, and returns it with numbers for names. gronx
// accepts more than it understands, such as 1-2-3, 61/5 or 32W, and other items depend
// on the date at which it looks. So everything it is given is checked here.
func (f *field) parse(text string) (string, error) {
	if text == "?" {
		text = "*"
	}
	items := strings.Split(strings.ToUpper(text), ",")
	for i, item := range items {
		for v, name := range f.names {
			item = strings.ReplaceAll(item, name, strconv.Itoa(f.least+v))
		}
		if !f.valid(item) {
			return "", fmt.Errorf("%s %q", f.name, text)
		}
		items[i] = item
	}
	return strings.Join(items, ","), nil
}

// valid reports whether an item has one of the forms and is within the bounds.
func (f *field) valid(item string) bool {
	if f.special != nil {
		if m := f.special.FindStringSubmatch(item); m != nil {
			return m[1] == "" || f.within(m[1])
		}
	}
	m := plainItem.FindStringSubmatch(item)
	if m == nil {
		return false
	}
	low, high, step := m[1], m[2], m[3]
	if low != "" && !f.within(low) || high != "" && !f.within(high) {
		return false
	}
	if step != "" && (number(step) < 1 || number(step) > f.most) {
		return false
	}
	// For gronx, a range that starts at Sunday as 7 starts at Sunday as 0.
	return high == "" || number(low) <= number(high) || f.most == 7 && low == "7"
}

func (f *field) within(text string) bool { return f.least <= number(text) && number(text) <= f.most }

// number returns the value of up to four digits.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// values returns the values that a field matches, in order. at returns a time with a
// given value of the field.
func (f *field) values(segment string, at func(int) time.Time) ([]int, error) {
	var all []int
	for v := f.least; v <= f.most; v++ {
		due, err := matches(segment, f.pos, at(v))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", f.name, segment, err)
		}
		if due {
			all = append(all, v)
		}
	}
	return all, nil
}

// matches reports whether a field matches the time, which is in UTC.
func matches(segment string, pos int, at time.Time) (bool, error) {
	var c gronx.SegmentChecker
	c.SetRef(at)
	return c.CheckDue(segment, pos)
}
