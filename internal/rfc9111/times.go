package rfc9111

import (
	"net/http"
	"strings"
	"time"
)

// initialAge returns the corrected initial age of RFC 9111 section 4.2.3. If Date
// is missing or not a date, received is used.
func initialAge(h http.Header, sent, received time.Time) time.Duration {
	// Date is in whole seconds, so received is truncated too. Otherwise a
	// response with a lifetime of one second would, on average, be half a second
	// old on arrival.
	apparent := max(received.Truncate(time.Second).Sub(dateOf(h, received)), 0)
	corrected := min(ageOf(h)+max(received.Sub(sent), 0), longest)
	return min(max(apparent, corrected), longest)
}

// ageOf parses Age: the first value of the first line, or 0 if that is not
// delta-seconds (RFC 9111 section 5.1).
func ageOf(h http.Header) time.Duration {
	lines := h["Age"]
	if len(lines) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(lines[0], ",")
	age, _ := deltaSeconds(trim(first))
	return age
}

// dateOf parses Date, and falls back to received.
func dateOf(h http.Header, received time.Time) time.Time {
	if lines := h["Date"]; len(lines) > 0 {
		if t, ok := httpDate(lines[0], received); ok {
			return t
		}
	}
	return received
}

// expiresIn returns the lifetime that Expires gives, and whether there is one. A
// value that is not a date has expired (RFC 9111 section 5.3). Of several lines,
// the earliest counts.
func expiresIn(h http.Header, received time.Time) (time.Duration, bool) {
	lines := h["Expires"]
	if len(lines) == 0 {
		return None, false
	}
	date := dateOf(h, received)
	life := longest
	for _, line := range lines {
		t, ok := httpDate(line, received)
		if !ok {
			return 0, true
		}
		life = min(life, max(t.Sub(date), 0))
	}
	return life, true
}

// httpDate parses the three forms of RFC 9110 section 5.6.7 strictly, except that
// case is ignored. time.Parse would accept too much (one-digit hours, other
// zones). The two-digit years of the second form are resolved relative to now.
func httpDate(s string, now time.Time) (time.Time, bool) {
	s = trim(s)
	if t, ok := fixDate(s); ok {
		return t, true
	}
	if t, ok := ansiDate(s); ok {
		return t, true
	}
	return rfc850Date(s, now)
}

// fixDate reads "Sun, 06 Nov 1994 08:49:37 GMT".
func fixDate(s string) (time.Time, bool) {
	if len(s) != 29 || !dayName(s[:3]) || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' {
		return time.Time{}, false
	}
	return date(s[12:16], s[8:11], s[5:7], s[17:25], s[25:])
}

// ansiDate reads "Sun Nov  6 08:49:37 1994".
func ansiDate(s string) (time.Time, bool) {
	if len(s) != 24 || !dayName(s[:3]) || s[3] != ' ' || s[7] != ' ' || s[10] != ' ' || s[19] != ' ' {
		return time.Time{}, false
	}
	day := s[8:10]
	if day[0] == ' ' {
		day = "0" + day[1:]
	}
	return date(s[20:24], s[4:7], day, s[11:19], " GMT")
}

// rfc850Date parses "Sunday, 06-Nov-94 08:49:37 GMT". A year that seems more than
// 50 years ahead is in the past.
func rfc850Date(s string, now time.Time) (time.Time, bool) {
	name, rest, ok := strings.Cut(s, ", ")
	if !ok || len(name) < 6 || !dayName(name[:3]) || !strings.EqualFold(name[len(name)-3:], "day") {
		return time.Time{}, false
	}
	if len(rest) != 22 || rest[2] != '-' || rest[6] != '-' || rest[9] != ' ' || !digit(rest[7]) || !digit(rest[8]) {
		return time.Time{}, false
	}
	now = now.UTC()
	year := now.Year()/100*100 + int(rest[7]-'0')*10 + int(rest[8]-'0')
	t, ok := date("2000", rest[3:6], rest[:2], rest[10:18], rest[18:])
	if !ok {
		return t, false
	}
	t = t.AddDate(year-2000, 0, 0)
	if t.After(now.AddDate(50, 0, 0)) {
		t = t.AddDate(-100, 0, 0)
	}
	return t, true
}

// date builds a time from its parts. The day of the week is not checked.
func date(year, month, day, clock, zone string) (time.Time, bool) {
	m := monthOf(month)
	if m == 0 || len(clock) != 8 || clock[2] != ':' || clock[5] != ':' || !strings.EqualFold(zone, " GMT") {
		return time.Time{}, false
	}
	y, ok1 := digits(year)
	d, ok2 := digits(day)
	hour, ok3 := digits(clock[:2])
	minute, ok4 := digits(clock[3:5])
	second, ok5 := digits(clock[6:])
	if !(ok1 && ok2 && ok3 && ok4 && ok5) || d < 1 || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, false
	}
	t := time.Date(y, m, d, hour, minute, second, 0, time.UTC)
	return t, t.Month() == m || second == 60 // not 31 February
}

func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if !digit(s[i]) {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

const (
	dayNames   = "SunMonTueWedThuFriSat"
	monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

func dayName(s string) bool { return nameIndex(dayNames, s) >= 0 }

func monthOf(s string) time.Month { return time.Month(nameIndex(monthNames, s) + 1) }

// nameIndex returns the index of s among names of three letters, or -1.
func nameIndex(names, s string) int {
	for i := 0; i < len(names); i += 3 {
		if strings.EqualFold(names[i:i+3], s) {
			return i / 3
		}
	}
	return -1
}
