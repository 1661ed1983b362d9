package jobshttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPreferWait is the largest wait=N that is read; routes cap it much lower.
const maxPreferWait = 24 * time.Hour

// preferences are what a request says in Prefer (RFC 7240) that concerns jobs.
type preferences struct {
	async bool          // respond-async
	waits bool          // there is a wait
	wait  time.Duration // its value
}

// readPrefer reads the Prefer fields. Of a preference that is there more than
// once the first counts (section 2). What is not understood is ignored, as is a
// member that is no preference at all.
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

// parseWait reads delta-seconds.
func parseWait(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > int64(maxPreferWait/time.Second) {
		return maxPreferWait, true // digits, but too many
	}
	return time.Duration(n) * time.Second, true
}

// A scanner reads a field line.
type scanner struct {
	text string
	at   int
}

func (s *scanner) end() bool { return s.at >= len(s.text) }

// preference reads one member of the list and the comma after it. The name is in
// small letters; parameters are read over.
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

// value reads "=" and what is behind it, if it is there.
func (s *scanner) value() (string, bool) {
	if s.spaces(); !s.skip('=') {
		return "", true
	}
	if s.spaces(); !s.end() && s.text[s.at] == '"' {
		return s.quoted()
	}
	return s.token(), true
}

// token reads a token; it is empty if there is none.
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

// quoted reads a quoted-string (RFC 9110, section 5.6.4).
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

// member goes on to the next member, over commas in strings.
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

// applied is the Preference-Applied field for what was honoured, empty for
// nothing. wait is what was waited for at most, which may be less than asked.
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
