package jsonnumber

import "bytes"

// Events reads an event stream (text/event-stream) in pieces, and finds the number in the
// data of its events. The last event that has it counts.
type Events struct {
	of    Pointer
	field []byte // the line so far, up to the colon
	data  *Scanner
	value bool // within the value of a line
	skip  bool // the line is not data
	space bool // a space after the colon belongs to it
	cr    bool // after a carriage return, which may be followed by a newline

	n  int
	ok bool
}

// NewEvents returns Events for the number at p.
func NewEvents(p Pointer) *Events { return &Events{of: p} }

// Write reads the next piece, and reports whether it ended an event with the number.
func (e *Events) Write(b []byte) (found bool) {
	for len(b) > 0 {
		c := b[0]
		switch {
		case e.cr && c == '\n':
			e.cr = false
			b = b[1:]
		case c == '\n' || c == '\r':
			found = e.endLine() || found
			e.cr = c == '\r'
			b = b[1:]
		case e.value || e.skip:
			n := bytes.IndexAny(b, "\r\n")
			if n < 0 {
				n = len(b)
			}
			if e.value {
				e.data.Write(b[:n])
			}
			e.cr = false
			b = b[n:]
		default:
			e.cr = false
			e.head(c)
			b = b[1:]
		}
	}
	return found
}

const dataField = "data:"

// head reads a byte before the value of a line.
func (e *Events) head(c byte) {
	if e.space {
		e.space, e.value = false, true
		if c != ' ' {
			e.data.Write([]byte{c})
		}
		return
	}
	if e.field = append(e.field, c); dataField[:len(e.field)] != string(e.field) {
		e.skip = true
		return
	}
	if len(e.field) == len(dataField) {
		e.space = true
		if e.data == nil {
			e.data = NewScanner(e.of)
		} else {
			e.data.Write([]byte{'\n'})
		}
	}
}

// endLine ends a line, and an event if the line is empty.
func (e *Events) endLine() (found bool) {
	empty := len(e.field) == 0 && !e.skip
	e.field, e.value, e.skip, e.space = e.field[:0], false, false, false
	if !empty || e.data == nil {
		return false
	}
	n, ok := e.data.End()
	e.data = nil
	if ok {
		e.n, e.ok = n, true
	}
	return ok
}

// End returns the number of the last event that has it. An event that is not complete does
// not count.
func (e *Events) End() (n int, ok bool) { return e.n, e.ok }
