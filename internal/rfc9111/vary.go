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

// codingPrefix begins the names in [Response.Vary] that mean whether a request accepts
// the content codings that follow.
const codingPrefix = "coding:"

// vary returns what selects a response with fields h to q, and whether that is known.
// It is not if Vary has a star, an invalid field name, or a field that a gateway writes.
// The result has, besides what Vary and the policy name, the fields of q with the plain
// name of one of these, the kinds of fields that count, and a content coding.
func (p *Policy) vary(h http.Header, q Request, kinds Kinds) ([]string, bool) {
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
			if !p.IsPerCall(name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range p.Vary {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	for _, name := range p.VaryCookies {
		names = append(names, cookiePrefix+name)
	}
	for name := range q.Fields {
		if slices.ContainsFunc(names, func(n string) bool { return plain(n) == plain(name) }) {
			names = append(names, name)
		}
	}
	if coding := contentCoding(h); coding != "" && !slices.Contains(names, "Accept-Encoding") {
		names = append(names, codingPrefix+coding)
	}
	names = append(names, p.countsName(kinds))
	slices.Sort(names)
	return slices.Compact(names), true
}

// Selecting encodes the values that a request has for the names in vary (see
// [Response.Vary]). The encoding is injective: two requests with the same encoding
// select the same response (RFC 9111 section 4.1). Of the fields of a kind it has a
// digest.
//
// An absent field is "-". Lines are combined and the blanks around commas
// normalized, except in lines with a quote, and in Authorization and Cookie,
// which are kept line by line. The values of a single cookie are kept one by one
// too. Each value is preceded by its length.
//
// Accept, Accept-Encoding and Accept-Language are encoded by what they mean, see
// preferences: fields that mean the same have the same encoding (H29).
func Selecting(vary []string, q *Request) string {
	return string(AppendSelecting(nil, vary, q))
}

// AppendSelecting appends Selecting(vary, q) to b.
func AppendSelecting(b []byte, vary []string, q *Request) []byte {
	for _, name := range vary {
		b = appendSelecting(b, name, q)
	}
	return b
}

func appendSelecting(b []byte, name string, q *Request) []byte {
	if kinds, ok := cutCounts(name); ok {
		return appendCounts(b, kinds, q)
	}
	h := q.Fields
	if codings, ok := strings.CutPrefix(name, codingPrefix); ok {
		return append(b, codingValue(codings, h)...)
	}
	if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
		c := cookies{lines: h["Cookie"]}
		for value, ok := c.next(cookie); ok; value, ok = c.next(cookie) {
			b = appendValue(b, value)
		}
		return append(b, '-')
	}
	if name == AcceptEvents {
		return append(b, eventsValue(h)...)
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

// contentCoding returns the codings of a response with the fields h, in lower case.
func contentCoding(h http.Header) string {
	if len(h["Content-Encoding"]) == 0 {
		return ""
	}
	return strings.ToLower(strings.Join(h["Content-Encoding"], ","))
}

// codingValue is the encoded value of a name with codingPrefix: "1:1" if the request
// accepts all of the codings, "-" if it does not say, and "1:0" if it refuses one. A
// response with that value goes to no other request.
func codingValue(codings string, h http.Header) string {
	lines := h["Accept-Encoding"]
	if len(lines) == 0 {
		return "-"
	}
	for coding := range strings.SplitSeq(codings, ",") {
		if coding = trim(coding); coding != "" && coding != "identity" && !acceptsCoding(lines, coding) {
			return refusesCoding
		}
	}
	return "1:1"
}

const refusesCoding = "1:0"

// acceptsCoding reports whether Accept-Encoding with these lines accepts a coding, which
// is in lower case (RFC 9110 section 12.5.3).
func acceptsCoding(lines []string, coding string) bool {
	any := false
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			name, parameter, weighted := strings.Cut(member, ";")
			name, yes := trim(name), true
			if parameter = trim(parameter); weighted && len(parameter) > 2 && (parameter[0]|0x20) == 'q' && parameter[1] == '=' {
				q, ok := weight(trim(parameter[2:]))
				yes = ok && q > 0
			}
			switch {
			case strings.EqualFold(name, coding) || coding == "gzip" && strings.EqualFold(name, "x-gzip"):
				return yes
			case name == "*":
				any = yes
			}
		}
	}
	return any
}

func appendValue(b []byte, v string) []byte {
	b = append(strconv.AppendInt(b, int64(len(v)), 10), ':')
	return append(b, v...)
}

// asTheyAre reports whether the lines of a field are not combined.
func asTheyAre(name string) bool { return name == "Authorization" || name == "Cookie" }

// Matches reports whether Selecting(vary, q) == selected, and allocates nothing for usual
// requests.
func Matches(vary []string, selected string, q *Request) bool {
	for _, name := range vary {
		var ok bool
		if selected, ok = cutSelecting(selected, name, q); !ok {
			return false
		}
	}
	return selected == ""
}

// MatchesOne is Matches for one name.
func MatchesOne(name, selected string, q *Request) bool {
	rest, ok := cutSelecting(selected, name, q)
	return ok && rest == ""
}

// cutSelecting removes from the front of s what appendSelecting would append.
func cutSelecting(s, name string, q *Request) (rest string, ok bool) {
	if kinds, ok := cutCounts(name); ok {
		return cutOfCounts(s, kinds, q)
	}
	h := q.Fields
	if codings, ok := strings.CutPrefix(name, codingPrefix); ok {
		value := codingValue(codings, h)
		rest, ok := strings.CutPrefix(s, value)
		return rest, ok && value != refusesCoding
	}
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
	if name == AcceptEvents {
		return strings.CutPrefix(s, eventsValue(h))
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
