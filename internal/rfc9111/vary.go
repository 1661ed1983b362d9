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

// vary is what a response with fields h is kept apart by, and whether that can
// be known: not with a star, or with what is no field name.
// Beside it are the forwarding fields that the request asked has: what the origin
// made of them is for requests that have the same.
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
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	for _, name := range p.Vary {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	for _, name := range p.VaryCookies {
		names = append(names, cookiePrefix+name)
	}
	for name := range asked {
		if p.keepsApart(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// Selecting renders what the request fields h say about the names in vary (see
// [Response.Vary]), injectively: two requests that it renders alike select the
// same response (RFC 9111 section 4.1).
//
// A field that is absent is "-". Lines are combined and the blanks around commas
// evened out, but not in lines with a quote, nor in Authorization and Cookie:
// these are kept line by line, and so are the values of a cookie. Each value
// comes with its length before it.
func Selecting(vary []string, h http.Header) string {
	var b []byte
	for _, name := range vary {
		b = appendSelecting(b, name, h)
	}
	return string(b)
}

func appendSelecting(b []byte, name string, h http.Header) []byte {
	if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
		c := cookies{lines: h["Cookie"]}
		for value, ok := c.next(cookie); ok; value, ok = c.next(cookie) {
			b = appendValue(b, value)
		}
		return append(b, '-')
	}
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

func appendValue(b []byte, v string) []byte {
	b = append(strconv.AppendInt(b, int64(len(v)), 10), ':')
	return append(b, v...)
}

// asTheyAre tells the fields whose lines are not combined.
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

// cutSelecting cuts what appendSelecting appends off the front of s.
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

// cutValue cuts what appendValue appends off the front of s.
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

// combined walks over the members of a field's lines.
type combined struct {
	lines []string // what is left
	rest  string   // of the line that was begun
	begun bool
	piece string
	n     int // pieces so far
}

// next goes to the next piece, and reports whether there is one.
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

// cookies walks over the cookies of a request, RFC 6265 section 4.2.
type cookies struct {
	lines []string
	rest  string
}

// next is what stands behind the name of the next cookie with that name: "="
// and the value as it came, or nothing.
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

// splitCookie splits a cookie into its name, and what is behind it.
func splitCookie(pair string) (name, after string) {
	pair = trim(pair)
	i := strings.IndexByte(pair, '=')
	if i < 0 {
		return pair, ""
	}
	return strings.TrimRight(pair[:i], " \t"), pair[i:]
}
