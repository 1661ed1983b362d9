package rfc9111

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// cookiePrefix begins the names in [Response.Vary] that mean one cookie. No
// field has a colon in its name.
const cookiePrefix = "cookie:"

// AcceptEvents is a name in [Response.Vary] that means whether Accept lists
// text/event-stream, and nothing else about Accept.
const AcceptEvents = "accept:events"

// Forwarding is a name in [Response.Vary] that means all fields by which proxies tell
// the origin what the client requested: X-Forwarded-Host, -Proto, -Port and the like.
// Requests match if they have the same of these fields, with the same values. A name
// alone would not do: a response to a request without the field would be for requests
// that have it.
const Forwarding = "x-forwarded:*"

// vary returns what selects a response with fields h, and whether that is known.
// It is not if Vary has a star, an invalid field name, or a field that a gateway writes.
// The result includes the forwarding fields in the request fields asked, and those with
// the plain name of a field that selects: a response that the origin built from them is
// only for requests that have the same.
func (p *Policy) vary(h, asked http.Header) ([]string, bool) {
	var names []string
	for _, line := range h["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			name = trim(name)
			if name == "" {
				continue
			}
			if name == "*" || !token(name) {
				return nil, false
			}
			if name = http.CanonicalHeaderKey(name); p.written(name) {
				return nil, false
			}
			names = append(names, name)
		}
	}
	for _, name := range p.Vary {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	for _, name := range p.VaryCookies {
		names = append(names, cookiePrefix+name)
	}
	for name := range asked {
		if p.keepsApart(name) || slices.ContainsFunc(names, func(n string) bool { return plain(n) == plain(name) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// Selecting encodes the values that the request fields h have for the names in
// vary (see [Response.Vary]). The encoding is injective: two requests with the
// same encoding select the same response (RFC 9111 section 4.1).
//
// An absent field is "-". Lines are combined and the blanks around commas
// normalized, except in lines with a quote, and in Authorization and Cookie,
// which are kept line by line. The values of a single cookie are kept one by one
// too. Each value is preceded by its length.
//
// Accept, Accept-Encoding and Accept-Language are encoded by what they mean, see
// preferences: fields that mean the same have the same encoding (H29).
func Selecting(vary []string, h http.Header) string {
	return string(AppendSelecting(nil, vary, h))
}

// AppendSelecting appends Selecting(vary, h) to b.
func AppendSelecting(b []byte, vary []string, h http.Header) []byte {
	for _, name := range vary {
		b = appendSelecting(b, name, h)
	}
	return b
}

func appendSelecting(b []byte, name string, h http.Header) []byte {
	if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
		c := cookies{lines: h["Cookie"]}
		for value, ok := c.next(cookie); ok; value, ok = c.next(cookie) {
			b = appendValue(b, value)
		}
		return append(b, '-')
	}
	switch name {
	case AcceptEvents:
		return append(b, eventsValue(h)...)
	case Forwarding:
		return appendForwarding(b, h)
	}
	return appendField(b, name, h)
}

// appendField is appendSelecting for a field.
func appendField(b []byte, name string, h http.Header) []byte {
	lines := h[name]
	if len(lines) == 0 {
		return append(b, '-')
	}
	if asTheyAre(name) {
		for _, line := range lines {
			b = appendValue(b, line)
		}
		return append(b, '-')
	}
	if negotiates(name) {
		var p preferences
		if p.read(name, lines) {
			var text [maxCanonical]byte
			value := p.append(text[:0])
			return append(append(strconv.AppendInt(b, int64(len(value)), 10), ':'), value...)
		}
	}
	size := -len(", ")
	for f := (combined{lines: lines}); f.next(); {
		size += len(", ") + len(f.piece)
	}
	b = append(strconv.AppendInt(b, int64(size), 10), ':')
	for f := (combined{lines: lines}); f.next(); {
		if f.n > 1 {
			b = append(b, ", "...)
		}
		b = append(b, f.piece...)
	}
	return b
}

// eventsValue is the encoded value of AcceptEvents.
func eventsValue(h http.Header) string {
	if wantsEvents(h["Accept"]) {
		return "1:1"
	}
	return "-"
}

// appendForwarding appends the encoded value of Forwarding: the name and the value of
// each field, in the order of the names.
func appendForwarding(b []byte, h http.Header) []byte {
	var few [16]string
	names := few[:0]
	for name, lines := range h {
		if len(lines) > 0 && forwarding(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		b = appendField(appendValue(b, name), name, h)
	}
	return append(b, '-')
}

// cutForwarding removes from the front of s what appendForwarding would append. It
// counts the fields of h, because it cannot sort them without allocating.
func cutForwarding(s string, h http.Header) (rest string, ok bool) {
	n := 0
	for name, lines := range h {
		if len(lines) > 0 && forwarding(name) {
			n++
		}
	}
	for before := ""; n > 0; n-- {
		var name string
		if name, s, ok = cutValue(s); !ok || name <= before || !forwarding(name) {
			return s, false
		}
		if s, ok = cutField(s, name, h); !ok {
			return s, false
		}
		before = name
	}
	return strings.CutPrefix(s, "-")
}

func appendValue(b []byte, v string) []byte {
	b = append(strconv.AppendInt(b, int64(len(v)), 10), ':')
	return append(b, v...)
}

// asTheyAre reports whether the lines of a field are not combined.
func asTheyAre(name string) bool { return name == "Authorization" || name == "Cookie" }

// Matches reports whether Selecting(vary, h) == selected, and allocates nothing.
func Matches(vary []string, selected string, h http.Header) bool {
	for _, name := range vary {
		var ok bool
		if selected, ok = cutSelecting(selected, name, h); !ok {
			return false
		}
	}
	return selected == ""
}

// cutSelecting removes from the front of s what appendSelecting would append.
func cutSelecting(s, name string, h http.Header) (rest string, ok bool) {
	if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
		c := cookies{lines: h["Cookie"]}
		for value, ok := c.next(cookie); ok; value, ok = c.next(cookie) {
			var v string
			if v, s, ok = cutValue(s); !ok || v != value {
				return s, false
			}
		}
		return strings.CutPrefix(s, "-")
	}
	switch name {
	case AcceptEvents:
		return strings.CutPrefix(s, eventsValue(h))
	case Forwarding:
		return cutForwarding(s, h)
	}
	return cutField(s, name, h)
}

// cutField removes from the front of s what appendField would append.
func cutField(s, name string, h http.Header) (rest string, ok bool) {
	lines := h[name]
	if len(lines) == 0 {
		return strings.CutPrefix(s, "-")
	}
	if asTheyAre(name) {
		for _, line := range lines {
			var v string
			if v, s, ok = cutValue(s); !ok || v != line {
				return s, false
			}
		}
		return strings.CutPrefix(s, "-")
	}
	v, s, ok := cutValue(s)
	if !ok {
		return s, false
	}
	if negotiates(name) {
		var p preferences
		if p.read(name, lines) {
			var text [maxCanonical]byte
			return s, string(p.append(text[:0])) == v // does not copy
		}
	}
	for f := (combined{lines: lines}); f.next(); {
		if f.n > 1 {
			if v, ok = strings.CutPrefix(v, ", "); !ok {
				return s, false
			}
		}
		if v, ok = strings.CutPrefix(v, f.piece); !ok {
			return s, false
		}
	}
	return s, v == ""
}

// cutValue removes from the front of s what appendValue would append.
func cutValue(s string) (v, rest string, ok bool) {
	n, i := 0, 0
	for i < len(s) && digit(s[i]) && n < len(s) {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 || i > 1 && s[0] == '0' || i == len(s) || s[i] != ':' || n > len(s)-i-1 {
		return "", s, false
	}
	s = s[i+1:]
	return s[:n], s[n:], true
}

// combined iterates over the members of a field's lines.
type combined struct {
	lines []string // not yet read
	rest  string   // of the current line
	begun bool
	piece string
	n     int // pieces so far
}

// next advances to the next piece, and reports whether there is one.
func (f *combined) next() bool {
	if !f.begun {
		if len(f.lines) == 0 {
			return false
		}
		f.rest, f.lines, f.begun = f.lines[0], f.lines[1:], true
		if strings.IndexByte(f.rest, '"') >= 0 {
			f.begun = false
			f.piece = trim(f.rest)
			f.n++
			return true
		}
	}
	f.piece, f.rest, f.begun = strings.Cut(f.rest, ",")
	f.piece = trim(f.piece)
	f.n++
	return true
}

// cookies iterates over the cookies of a request, RFC 6265 section 4.2.
type cookies struct {
	lines []string
	rest  string
}

// next returns the text after the name of the next cookie with that name: "=" and
// the value as received, or nothing.
func (c *cookies) next(name string) (value string, ok bool) {
	for {
		if c.rest == "" {
			if len(c.lines) == 0 {
				return "", false
			}
			c.rest, c.lines = c.lines[0], c.lines[1:]
			continue
		}
		var pair string
		pair, c.rest, _ = strings.Cut(c.rest, ";")
		n, after := splitCookie(pair)
		if n == name {
			return after, true
		}
	}
}

// splitCookie splits a cookie into its name and the rest.
func splitCookie(pair string) (name, after string) {
	pair = trim(pair)
	i := strings.IndexByte(pair, '=')
	if i < 0 {
		return pair, ""
	}
	return strings.TrimRight(pair[:i], " \t"), pair[i:]
}
