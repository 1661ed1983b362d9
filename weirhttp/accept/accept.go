// Package accept chooses the type of a response that weir generates, such as an error page
// or the page about a job, by the request's Accept fields (RFC 9110, section 12.5.1).
package accept

import (
	"strconv"
	"strings"
)

// Choose returns the position of the offer that a client with these Accept fields prefers,
// -1 if it accepts none of them. Of offers that it accepts equally, the first is chosen;
// without Accept it accepts all. Offers are media types without parameters, such as
// text/html, and their charset is UTF-8.
func Choose(accept []string, offers ...string) int {
	best, most := -1, 0
	for i, o := range offers {
		major, minor, _ := strings.Cut(o, "/")
		if q := (offer{major, minor}).quality(accept); q > most {
			best, most = i, q
		}
	}
	return best
}

// An offer is a type that a response can have.
type offer struct{ major, minor string }

// quality returns the weight of o, in thousandths. The most specific range that matches
// counts, and of several the first.
func (o offer) quality(accept []string) int {
	q, specific, asked := 0, -1, false
	for _, line := range accept {
		for line != "" {
			var element string
			element, line = nextElement(line)
			r, ok := parseRange(element)
			if !ok {
				continue
			}
			asked = true
			if s := o.match(r); s > specific {
				q, specific = r.q, s
			}
		}
	}
	if !asked {
		return 1000 // without Accept, all types are acceptable
	}
	return q
}

// match returns how specifically r matches o: -1 not at all, 0 */*, 1 text/*, 2 the type
// itself.
func (o offer) match(r mediaRange) int {
	switch {
	case r.more:
		return -1 // no page has other parameters
	case r.major == "*" && r.minor == "*":
		return 0
	case strings.EqualFold(r.major, o.major) && r.minor == "*":
		return 1
	case strings.EqualFold(r.major, o.major) && strings.EqualFold(r.minor, o.minor):
		return 2
	}
	return -1
}

// A mediaRange is an element of Accept.
type mediaRange struct {
	major, minor string
	q            int  // in thousandths
	more         bool // it has parameters besides charset=utf-8
}

// nextElement splits the first element off a list. Quoted strings may contain commas.
func nextElement(list string) (element, rest string) {
	if i := unquotedIndex(list, ','); i >= 0 {
		return list[:i], list[i+1:]
	}
	return list, ""
}

// unquotedIndex returns the position of the first c outside of quoted strings, or -1.
func unquotedIndex(s string, c byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == c && !quoted:
			return i
		}
	}
	return -1
}

// parseRange parses an element. It reports false if it is not a media range, or if its
// weight is not one.
func parseRange(element string) (mediaRange, bool) {
	name, params := cutUnquoted(element)
	r := mediaRange{q: 1000}
	var ok bool
	r.major, r.minor, ok = strings.Cut(strings.Trim(name, " \t"), "/")
	if !ok || r.major == "" || r.minor == "" || r.major == "*" && r.minor != "*" {
		return r, false
	}
	for params != "" {
		var param string
		param, params = cutUnquoted(params)
		name, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
		switch {
		case name == "":
		case strings.EqualFold(name, "q"):
			if r.q, ok = weight(value); !ok {
				return r, false
			}
		case strings.EqualFold(name, "charset") && strings.EqualFold(strings.Trim(value, `"`), "utf-8"):
		default:
			r.more = true
		}
	}
	return r, true
}

// cutUnquoted is strings.Cut at a semicolon outside of quoted strings.
func cutUnquoted(s string) (before, after string) {
	if i := unquotedIndex(s, ';'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// weight parses a qvalue: from 0 to 1, with up to three decimals.
func weight(text string) (int, bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	n := 0
	if decimals != "" {
		parsed, err := strconv.ParseUint((decimals + "00")[:3], 10, 16)
		if err != nil {
			return 0, false
		}
		n = int(parsed)
	}
	if whole == "1" {
		return 1000, n == 0
	}
	return n, true
}
