package upstream

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxNames is how many names a Pointer may have.
const maxNames = 16

// Pointer returns the names in a JSON pointer that is not empty. It reports false if it is not
// one, or has more than 16 names.
func Pointer(text string) (names []string, ok bool) {
	plain := strings.NewReplacer("~0", "", "~1", "").Replace(text)
	if !strings.HasPrefix(text, "/") || strings.Contains(plain, "~") {
		return nil, false
	}
	names = strings.Split(text[1:], "/")
	for i, n := range names {
		names[i] = strings.ReplaceAll(strings.ReplaceAll(n, "~1", "/"), "~0", "~")
	}
	return names, len(names) <= maxNames
}

// pointed returns the value at a JSON pointer (RFC 6901), given as its names, in a JSON text, or
// nil if there is none. Of members with one name the first counts. It reads the text no further
// than the end of the value and checks no more of it than it needs, which is enough for a
// choice among equal servers: of a text that is not JSON it finds some part of it, or none.
func pointed(text []byte, pointer []string) []byte {
	s := scanner{text: text}
	for _, name := range pointer {
		if !s.enter(name) {
			return nil
		}
	}
	s.space()
	begin := s.at
	s.skip()
	return text[begin:s.at]
}

// A scanner is a place in a JSON text.
type scanner struct {
	text []byte
	at   int
}

// next returns the byte at the place, 0 at the end.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for c := s.next(); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = s.next() {
		s.at++
	}
}

// enter moves to the member or element with that name of the value at the place.
func (s *scanner) enter(name string) bool {
	s.space()
	object := s.next() == '{'
	if !object && s.next() != '[' {
		return false
	}
	s.at++
	for i := 0; ; i++ {
		s.space()
		if c := s.next(); c == 0 || c == '}' || c == ']' {
			return false
		}
		found := !object && name == strconv.Itoa(i)
		if object {
			begin := s.at
			s.skip()
			found = named(s.text[begin:s.at], name)
			s.space()
			if s.next() != ':' {
				return false
			}
			s.at++
			s.space()
		}
		if found {
			return true
		}
		begin := s.at
		s.skip()
		s.space()
		if s.next() == ',' {
			s.at++
		} else if s.at == begin {
			return false
		}
	}
}

// named reports whether a JSON string is a name.
func named(quoted []byte, name string) bool {
	if len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name {
		return true
	}
	if len(quoted) <= len(name)+2 { // escapes are longer
		return false
	}
	var plain string
	return json.Unmarshal(quoted, &plain) == nil && plain == name
}

// skip moves behind the value at the place.
func (s *scanner) skip() {
	depth := 0
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			s.str()
			if depth == 0 {
				s.at++
				return
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth == 0 {
					s.at++
				}
				return
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return
			}
		}
	}
}

// str moves to the end of the string that begins at the place.
func (s *scanner) str() {
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at = min(s.at, len(s.text)-1)
}
