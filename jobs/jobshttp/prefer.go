package jobshttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPreferWait caps wait=N while parsing; routes cap it much lower.
const maxPreferWait = 24 * time.Hour

// preferences are the members of Prefer (RFC 7240) that concern jobs.
type preferences struct {
	async bool          // respond-async
	waits bool          // there is a wait
	wait  time.Duration // its value
}

// readPrefer parses the Prefer fields. If a preference occurs more than once, the
// first counts (section 2). Unknown preferences and malformed members are ignored.
func readPrefer(h http.Header) preferences {
	var p preferences
	seen := map[string]bool{}
	for _, line := range h["Prefer"] {
		for s := (scanner{text: line}); !s.end(); {
			name, value, ok := s.preference()
			if !ok || seen[name] {
				continue
			}
			seen[name] = true
			switch name {
			case "respond-async":
				p.async = value == ""
			case "wait":
				p.wait, p.waits = parseWait(value)
			}
		}
	}
	return p
}

// parseWait parses delta-seconds.
func parseWait(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > int64(maxPreferWait/time.Second) {
		return maxPreferWait, true // only digits, but too many
	}
	return time.Duration(n) * time.Second, true
}

// A scanner parses a field line.
type scanner struct {
	text string
	at   int
}

func (s *scanner) end() bool { return s.at >= len(s.text) }

// preference parses one member of the list and the comma after it. The name is in
// lower case; parameters are skipped.
func (s *scanner) preference() (name, value string, ok bool) {
	s.spaces()
	name = strings.ToLower(s.token())
	ok = name != ""
	value, sound := s.value()
	ok = ok && sound
	for s.spaces(); ok && s.skip(';'); s.spaces() {
		s.spaces()
		if s.token() != "" {
			_, ok = s.value()
		}
	}
	if s.spaces(); !s.end() && s.text[s.at] != ',' {
		ok = false
	}
	s.member()
	return name, value, ok
}

// value parses "=" and the value after it, if present.
func (s *scanner) value() (string, bool) {
	if s.spaces(); !s.skip('=') {
		return "", true
	}
	if s.spaces(); !s.end() && s.text[s.at] == '"' {
		return s.quoted()
	}
	return s.token(), true
}

// token parses a token; it is empty if there is none.
func (s *scanner) token() string {
	from := s.at
	for !s.end() && isTokenByte(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

func isTokenByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) < 0
}

// quoted parses a quoted-string (RFC 9110, section 5.6.4).
func (s *scanner) quoted() (string, bool) {
	var b strings.Builder
	for s.at++; !s.end(); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return b.String(), true
		case c == '\\' && s.at+1 < len(s.text):
			s.at++
			b.WriteByte(s.text[s.at])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// member skips to the next member, past commas in strings.
func (s *scanner) member() {
	for !s.end() {
		switch s.text[s.at] {
		case ',':
			s.at++
			return
		case '"':
			s.quoted()
		default:
			s.at++
		}
	}
}

func (s *scanner) skip(c byte) bool {
	if s.end() || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) spaces() {
	for !s.end() && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// applied returns the Preference-Applied field for the preferences that were applied,
// or "". wait is the actual maximum wait, which can be less than requested.
func (p preferences) applied(wait time.Duration) string {
	var all []string
	if p.async {
		all = append(all, "respond-async")
	}
	if p.waits {
		all = append(all, "wait="+strconv.FormatInt(int64(wait/time.Second), 10))
	}
	return strings.Join(all, ", ")
}
