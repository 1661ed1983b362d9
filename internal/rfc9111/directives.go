package rfc9111

import (
	"strings"
	"time"
)

// longest is the value at which delta-seconds saturate: 2^31 seconds, as RFC 9111
// section 1.2.2 proposes. The sum of an age, a lifetime and a window stays far
// from overflow.
const longest = (1 << 31) * time.Second

// directives holds a response's Cache-Control directives, or those of the
// targeted field that replaces Cache-Control.
//
// Where the RFC leaves a choice, the strict reading wins. If a directive is
// repeated, the shortest value counts. A value that is not delta-seconds counts
// as 0. The qualified forms private="f" and no-cache="f" count as the unqualified
// ones, as RFC 9111 sections 5.2.2.4 and 5.2.2.7 allow.
type directives struct {
	maxAge, sMaxAge time.Duration // None when absent
	swr, sie        time.Duration // stale-while-revalidate, stale-if-error: None when absent

	public, private, noStore, noCache bool
	mustRevalidate, proxyRevalidate   bool
	mustUnderstand                    bool

	// malformed: s-maxage or must-revalidate is, so neither permits anything.
	malformed bool

	targeted bool // from a field of RFC 9213: Expires is ignored
}

// nothing returns the directives of a response that has none.
func nothing() directives {
	return directives{maxAge: None, sMaxAge: None, swr: None, sie: None}
}

// readCacheControl reads the lines of a Cache-Control field.
func readCacheControl(lines []string) directives {
	d := nothing()
	for _, line := range lines {
		var m member
		for line != "" {
			m, line = nextMember(line, m)
			d.add(m)
		}
	}
	return d
}

// add records one member. A directive that permits something must be well formed
// to count; one that forbids something counts however it is written.
func (d *directives) add(m member) {
	switch {
	case m.broken:
		d.noStore = true
	case m.is("max-age"):
		d.maxAge = shorter(d.maxAge, m.seconds())
	case m.is("s-maxage"):
		d.sMaxAge = shorter(d.sMaxAge, m.seconds())
		d.malformed = d.malformed || m.junk
	case m.is("stale-while-revalidate"):
		d.swr = shorter(d.swr, m.seconds())
	case m.is("stale-if-error"):
		d.sie = shorter(d.sie, m.seconds())
	case m.is("no-store"):
		d.noStore = true
	case m.is("no-cache"):
		d.noCache = true
	case m.is("private"):
		d.private = true
	case m.is("must-revalidate"):
		d.mustRevalidate = true
		d.malformed = d.malformed || m.junk
	case m.is("proxy-revalidate"):
		d.proxyRevalidate = true
	case m.is("public"):
		d.public = d.public || !m.junk
	case m.is("must-understand"):
		d.mustUnderstand = d.mustUnderstand || !m.junk
	}
}

// shorter returns the shorter of a, which can be None, and b.
func shorter(a, b time.Duration) time.Duration {
	if a == None || b < a {
		return b
	}
	return a
}

// A member is one directive of a Cache-Control line.
type member struct {
	name, value string // value without its quotes; escapes are kept
	valued      bool   // has a "="
	junk        bool   // does not follow the grammar
	open        bool   // is followed by another member without a comma, so it is junk
	broken      bool   // opens a quoted string that never ends, so the rest of the line is unreadable
}

// is reports whether m is the directive with the given lower-case name.
func (m member) is(name string) bool {
	return len(m.name) == len(name) && strings.EqualFold(m.name, name)
}

// seconds returns the value as delta-seconds, or 0 if it is not valid.
func (m member) seconds() time.Duration {
	if !m.valued || m.junk {
		return 0
	}
	v, _ := deltaSeconds(m.value)
	return v
}

// nextMember splits the member that follows last off s, which is not empty. last is
// the one before it in the line, or the zero member. Commas separate members. A
// semicolon is treated as a comma: no directive's grammar allows one, servers that
// send it mean a comma, and missing a private after it would be the worse error. For
// the same reason, what follows a member without a comma is a member too, but both
// are junk.
func nextMember(s string, last member) (m member, rest string) {
	m.junk = last.open
	for s != "" && (isBlank(s[0]) || isComma(s[0])) {
		s = s[1:]
	}
	n := 0
	for n < len(s) && isToken(s[n]) {
		n++
	}
	m.name, s = s[:n], s[n:]
	switch {
	case s == "" || isComma(s[0]):
		return m, s // the usual case
	case s[0] == '=':
		m.valued = true
		if s = s[1:]; strings.HasPrefix(s, `"`) {
			s = m.quoted(s)
			break
		}
		for n = 0; n < len(s) && !isBlank(s[n]) && !isComma(s[n]) && s[n] != '"'; n++ {
		}
		m.value, s = s[:n], s[n:]
	case !isBlank(s[0]):
		m.junk = true
		// A value that is quoted as a whole may mean the directives in it.
		m.broken = m.name == "" && s[0] == '"'
		for n = 0; n < len(s) && !isBlank(s[n]) && !isComma(s[n]) && s[n] != '"'; n++ {
		}
		if s = s[n:]; strings.HasPrefix(s, `"`) {
			s = m.quoted(s)
		}
	}
	s = skipBlanks(s)
	m.open = s != "" && !isComma(s[0])
	m.junk = m.junk || m.open
	return m, s
}

// quoted sets the value of m to the quoted string at the start of s, and returns the
// rest of s.
func (m *member) quoted(s string) string {
	end := quotedEnd(s)
	if end < 0 {
		m.broken = true
		return ""
	}
	m.value = s[1:end]
	return s[end+1:]
}

// quotedEnd returns the index of the quote that ends the quoted string at the
// start of s, or -1 if there is none.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
func isComma(c byte) bool { return c == ',' || c == ';' }

// skipBlanks and trim do what strings.TrimLeft and Trim do for blanks and tabs.
// The functions in strings take several times as long.
func skipBlanks(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	return s
}

func trim(s string) string {
	s = skipBlanks(s)
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// deltaSeconds parses delta-seconds (RFC 9111 section 1.2.2) and reports whether
// s is valid.
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	n := int64(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > int64(longest/time.Second) {
			n = int64(longest / time.Second)
		}
	}
	return time.Duration(n) * time.Second, true
}

// tokens marks the bytes allowed in a token, RFC 9110 section 5.6.2.
var tokens = func() (t [256]bool) {
	for c := '0'; c <= 'z'; c++ {
		t[c] = c <= '9' || c >= 'a' || c >= 'A' && c <= 'Z'
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// IsFieldName reports whether s is the name of a field (RFC 9110 section 5.1).
func IsFieldName(s string) bool { return token(s) }

func isToken(c byte) bool { return tokens[c] }

// token reports whether s is a token.
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isToken(s[i]) {
			return false
		}
	}
	return s != ""
}
