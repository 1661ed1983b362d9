package jsonnumber

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/weir-go/weir/internal/stated"
)

// maxDepth is how deeply a text may be nested.
const maxDepth = 256

// A Scanner reads one JSON text in pieces. It checks no more than it needs: of a text that
// is not valid JSON it finds a number or none.
type Scanner struct {
	of   Pointer
	dead bool // nothing more is looked for

	// Of the values that are open: whether each is an object, and of an array the index
	// of its current element.
	open    []level
	matched int // how many of them, from the outermost on, are on the way to the number

	expectName bool   // the next string is a name in an object
	inString   bool   // within a string
	escaped    bool   // after a backslash in it
	text       []byte // of the name or number that matters, up to a bound
	keep       bool   // text is being kept
	name       string // the current one, of the innermost object
	inNumber   bool

	found int
	ok    bool
	ends  bool // the outermost value is complete
}

type level struct {
	object bool
	index  int
}

// NewScanner returns a Scanner for the number at p.
func NewScanner(p Pointer) *Scanner { return &Scanner{of: p} }

// Write reads the next piece.
func (s *Scanner) Write(b []byte) {
	for i := 0; i < len(b) && !s.dead; i++ {
		if s.inString && !s.keep && !s.escaped { // the bulk of most texts
			at := bytes.IndexAny(b[i:], `"\`)
			if at < 0 {
				return
			}
			i += at
		}
		s.byte(b[i])
	}
}

// Done reports whether an object or array was read to its end.
func (s *Scanner) Done() bool { return s.ends && !s.inNumber && !s.dead }

// End returns the number, once the text is complete. It returns false if there is none, or
// the text is not whole. Of several, the last one counts.
func (s *Scanner) End() (n int, ok bool) {
	s.endNumber()
	return s.found, s.ok && s.ends && !s.dead
}

func (s *Scanner) byte(c byte) {
	switch {
	case s.inString:
		s.inText(c)
		return
	case s.inNumber && (c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'):
		s.keeps(c)
		return
	}
	s.endNumber()
	switch c {
	case '{', '[':
		s.enter(c == '{')
	case '}', ']':
		s.leave(c == '}')
	case ',':
		s.next()
	case ':':
		s.expectName = false
	case '"':
		s.inString = true
		s.keep, s.text = s.expectName && s.matched == len(s.open), s.text[:0]
		s.beginValue()
	case ' ', '\t', '\r', '\n':
	default:
		s.beginValue()
		s.inNumber = c == '-' || c >= '0' && c <= '9'
		s.keep, s.text = s.inNumber && s.here(), s.text[:0]
		s.keeps(c)
	}
}

// beginValue forgets a number that was found, if the same name comes again with another
// value.
func (s *Scanner) beginValue() {
	if !s.expectName && s.here() {
		s.ok = false
	}
	if s.ends {
		s.dead = true // more than one text
	}
}

// here reports whether a value that begins now is the one that is looked for.
func (s *Scanner) here() bool {
	return s.matched == len(s.open) && len(s.open) == len(s.of.names) && s.onTheWay()
}

// onTheWay reports whether the current element of the innermost value is on the way to the
// number. All outer ones must be.
func (s *Scanner) onTheWay() bool {
	depth := len(s.open)
	if s.matched != depth || depth == 0 || depth > len(s.of.names) {
		return false
	}
	want := s.of.names[depth-1]
	if in := s.open[depth-1]; !in.object {
		return want == strconv.Itoa(in.index)
	}
	return want == s.name
}

func (s *Scanner) enter(object bool) {
	s.beginValue()
	if len(s.open) == maxDepth {
		s.dead = true
		return
	}
	on := len(s.open) == 0 || s.onTheWay()
	s.open = append(s.open, level{object: object})
	if on {
		s.matched = len(s.open)
		s.name = ""
	}
	s.expectName = object
}

func (s *Scanner) leave(object bool) {
	last := len(s.open) - 1
	if last < 0 || s.open[last].object != object {
		s.dead = true
		return
	}
	s.open = s.open[:last]
	if s.matched > last {
		s.matched = last
		s.name = ""
		if last > 0 && last <= len(s.of.names) {
			s.name = s.of.names[last-1] // it was on the way
		}
	}
	s.expectName = false
	s.ends = last == 0
}

func (s *Scanner) next() {
	last := len(s.open) - 1
	if last < 0 {
		s.dead = true
		return
	}
	s.open[last].index++
	s.expectName = s.open[last].object
}

// inText reads a byte of a string.
func (s *Scanner) inText(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
		if s.expectName && s.matched == len(s.open) {
			s.name = s.unquoted()
		}
		s.keep = false
		s.ends = len(s.open) == 0
		return
	}
	s.keeps(c)
}

// unquoted returns the name in text, or one that no pointer has.
func (s *Scanner) unquoted() string {
	var name string
	if s.keep && json.Unmarshal(append(append([]byte{'"'}, s.text...), '"'), &name) == nil {
		return name
	}
	return "\x00"
}

// keeps appends c to text, up to a bound beyond which no name or number matters: every
// byte of a name may be escaped in six.
func (s *Scanner) keeps(c byte) {
	if s.keep {
		s.text = append(s.text, c)
		s.keep = len(s.text) <= 6*maxName
	}
}

func (s *Scanner) endNumber() {
	if !s.inNumber {
		return
	}
	s.inNumber = false
	if s.keep {
		s.found, s.ok = stated.RoundedUp(string(s.text))
	}
	s.keep = false
	s.ends = s.ends || len(s.open) == 0
}
