package eventstream

import (
	"bytes"
	"slices"
)

// Rules are what a Scanner looks for. An event has a type, "message" if it states none,
// and data: the lines of its data fields, joined by line feeds.
type Rules struct {
	// End is the data of the terminal event, EndType its type. If both are set,
	// either will do. If both are empty, streams have no terminal event.
	End, EndType string
	// An event of one of IncompleteTypes, or whose data contains one of
	// IncompleteData, makes a stream incomplete.
	IncompleteTypes, IncompleteData []string
}

// Bounds on the texts of Rules.
const (
	MaxText = 1 << 10
	MaxType = 256
)

// maxData is how much of the data of an event is searched for IncompleteData.
const maxData = 64 << 10

// A Scanner follows one stream. Its memory is bounded, whatever the stream holds.
type Scanner struct {
	rules Rules
	keep  int // how much data of an event is kept: all that is compared, and a byte more

	bom  int  // how much of a byte order mark has been seen, len(byteOrderMark) once that is decided
	cr   bool // the last byte was a CR: a LF that follows belongs to the same line end
	line line

	// The event that the next blank line dispatches.
	kind    []byte
	data    []byte
	hasData bool // it has a data field
	cut     bool // data exceeds its bound

	ended, incomplete, some bool
}

// A line is the line being read.
type line struct {
	begun  bool // it is not empty
	named  bool // its colon was seen, and field is final
	spaced bool // the blank that may follow the colon was dealt with
	field  []byte
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// New returns a Scanner at the beginning of a stream.
func New(r Rules) *Scanner {
	s := &Scanner{rules: r, keep: len(r.End) + 1}
	if len(r.IncompleteData) > 0 {
		s.keep = max(s.keep, maxData)
	}
	return s
}

// Add takes the next bytes of the stream.
func (s *Scanner) Add(p []byte) {
	for s.bom < len(byteOrderMark) && len(p) > 0 {
		if p[0] != byteOrderMark[s.bom] {
			s.part(byteOrderMark[:s.bom]) // it was not a mark
			s.bom = len(byteOrderMark)
			break
		}
		s.bom++
		p = p[1:]
	}
	for len(p) > 0 {
		if s.cr && p[0] == '\n' {
			s.cr, p = false, p[1:]
			continue
		}
		s.cr = false
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			s.part(p)
			return
		}
		s.part(p[:i])
		s.endLine()
		s.cr, p = p[i] == '\r', p[i+1:]
	}
}

// part takes a part of a line.
func (s *Scanner) part(p []byte) {
	l := &s.line
	if len(p) == 0 {
		return
	}
	l.begun = true
	if !l.named {
		const longest = len("event") // a longer name is none that matters
		i := bytes.IndexByte(p, ':')
		if i < 0 {
			l.field = atMost(l.field, p, longest+1)
			return
		}
		l.field = atMost(l.field, p[:i], longest+1)
		l.named = true
		s.begin()
		p = p[i+1:]
	}
	if !l.spaced && len(p) > 0 {
		l.spaced = true
		if p[0] == ' ' {
			p = p[1:]
		}
	}
	switch string(l.field) {
	case "data":
		s.cut = s.cut || len(s.data)+len(p) > s.keep
		s.data = atMost(s.data, p, s.keep)
	case "event":
		s.kind = atMost(s.kind, p, MaxType+1)
	}
}

// begin begins the value of a field.
func (s *Scanner) begin() {
	switch string(s.line.field) {
	case "data":
		if s.hasData {
			s.cut = s.cut || len(s.data) == s.keep
			s.data = atMost(s.data, []byte{'\n'}, s.keep)
		}
		s.hasData = true
	case "event":
		s.kind = s.kind[:0] // the last one counts
	}
}

// endLine ends a line. A blank line dispatches the event.
func (s *Scanner) endLine() {
	switch l := &s.line; {
	case !l.begun:
		s.dispatch()
	case !l.named:
		s.begin() // the whole line is the name of a field without a value
	}
	s.line = line{field: s.line.field[:0]}
}

// dispatch ends an event. One without data is not an event.
func (s *Scanner) dispatch() {
	if s.hasData {
		s.some = true
		kind := string(s.kind)
		if kind == "" {
			kind = "message"
		}
		r := &s.rules
		s.ended = r.End != "" && string(s.data) == r.End || r.EndType != "" && kind == r.EndType
		s.incomplete = s.incomplete || slices.Contains(r.IncompleteTypes, kind) ||
			len(r.IncompleteData) > 0 && s.cut || // not all of it was searched
			slices.ContainsFunc(r.IncompleteData, func(text string) bool { return bytes.Contains(s.data, []byte(text)) })
	}
	s.kind, s.data, s.hasData, s.cut = s.kind[:0], s.data[:0], false, false
}

// Ended reports whether the last event so far was the terminal one, and no other has
// begun. Without a terminal event in the rules it is false.
func (s *Scanner) Ended() bool { return s.ended && s.Between() }

// Between reports whether the stream so far ends between two events: with a line end,
// and without a field of an event that was not dispatched.
func (s *Scanner) Between() bool { return !s.line.begun && !s.hasData && len(s.kind) == 0 }

// Some reports whether there was an event so far.
func (s *Scanner) Some() bool { return s.some }

// Incomplete reports whether an event so far makes the stream incomplete.
func (s *Scanner) Incomplete() bool { return s.incomplete }

// atMost appends p to b, up to n bytes in total.
func atMost(b, p []byte, n int) []byte {
	return append(b, p[:max(0, min(len(p), n-len(b)))]...)
}
