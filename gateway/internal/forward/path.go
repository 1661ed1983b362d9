package forward

import "strings"

// A Path maps the path of a client's request to the path that servers get (H27). It
// depends on nothing but that path, so two requests with the same cache key always
// give the same upstream request (H9). The zero Path changes nothing.
type Path struct {
	// Strip is removed from the front, by whole segments. Empty removes nothing.
	Strip string
	// Caseless compares Strip without regard to case.
	Caseless bool
	// Base is put in front. It does not end with a slash.
	Base string
}

// Of returns the path that servers get for path, which is escaped and begins with a
// slash, or is the "*" of OPTIONS. It reports false for a path that cannot be mapped:
// one that is not under Strip, or one with "..", with which a server could leave Base.
func (p Path) Of(path string) (string, bool) {
	if path == "*" {
		return path, true
	}
	rest, ok := p.rest(path)
	if !ok {
		return "", false
	}
	return p.Base + rest, true
}

// rest is Of without Base, so that it allocates nothing.
func (p Path) rest(path string) (string, bool) {
	switch {
	case p.Strip == "" && p.Base == "" || path == "*":
		return path, true
	case climbs(path):
		return "", false
	}
	return p.strip(path)
}

// strip removes Strip from path. What remains begins with a slash.
func (p Path) strip(path string) (string, bool) {
	i := 0
	for j := 0; j < len(p.Strip); {
		if i >= len(path) {
			return "", false
		}
		c, n := octet(path, i)
		want, m := octet(p.Strip, j)
		if c != want && !(p.Caseless && lowerOctet(c) == lowerOctet(want)) {
			return "", false
		}
		i, j = i+n, j+m
	}
	switch rest := path[i:]; {
	case rest == "":
		return "/", true
	case rest[0] == '/':
		// Some servers and clients take //x/y for the host x, in redirects above all.
		for p.Strip != "" && p.Base == "" && strings.HasPrefix(rest, "//") {
			rest = rest[1:]
		}
		return rest, true
	}
	return "", false // /apix is not under /api
}

// octet returns the octet at s[i], and how many bytes it takes. An encoded unreserved
// character is that character (RFC 9110, section 4.2.3); any other escape differs from
// the character that it stands for, and is returned with 256 added.
func octet(s string, i int) (c int, n int) {
	high, low, ok := escape(s, i)
	if !ok {
		return int(s[i]), 1
	}
	b := high<<4 | low
	if unreserved(b) {
		return int(b), 3
	}
	return 256 + int(b), 3
}

// escape returns the digits of the escape at s[i].
func escape(s string, i int) (high, low byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, 0, false
	}
	high, ok1 := unhex(s[i+1])
	low, ok2 := unhex(s[i+2])
	return high, low, ok1 && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func unreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}

func lowerOctet(c int) int {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// climbs reports whether a server may read a segment ".." in path: with escapes decoded
// once, a slash or a backslash, encoded or not, as a separator, and the parameters of a
// segment (";x") left out.
func climbs(path string) bool {
	dots, other, params := 0, false, false
	for i := 0; i <= len(path); {
		c, n := byte('/'), 1 // the end ends a segment, too
		if i < len(path) {
			c = path[i]
			if high, low, ok := escape(path, i); ok {
				c, n = high<<4|low, 3
			}
		}
		i += n
		switch {
		case c == '/' || c == '\\':
			if dots == 2 && !other {
				return true
			}
			dots, other, params = 0, false, false
		case params:
		case c == ';':
			params = true
		case c == '.':
			dots++
		default:
			other = true
		}
	}
	return false
}
