// Package jsonnumber finds a number in JSON texts and in event streams that pass by,
// without keeping them: memory and time for each byte are bounded, whatever is sent.
package jsonnumber

import (
	"errors"
	"strings"
)

// A Pointer refers to a value in a JSON text (RFC 6901). The zero Pointer is none.
type Pointer struct{ names []string }

// Bounds of a Pointer.
const (
	maxNames = 16
	maxName  = 256 // bytes
)

var errPointer = errors.New(`a JSON pointer such as "/usage/total_tokens": up to 16 names of up to 256 bytes, each after a slash`)

// Parse reads a pointer: names with a slash before each, "~1" for a slash in a name and
// "~0" for a tilde. An index of an array is a decimal name.
func Parse(s string) (Pointer, error) {
	if !strings.HasPrefix(s, "/") {
		return Pointer{}, errPointer
	}
	names := strings.Split(s[1:], "/")
	if len(names) > maxNames {
		return Pointer{}, errPointer
	}
	for i, name := range names {
		for at := range len(name) {
			if name[at] == '~' && (at+1 == len(name) || name[at+1] != '0' && name[at+1] != '1') {
				return Pointer{}, errPointer
			}
		}
		names[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		if len(names[i]) > maxName {
			return Pointer{}, errPointer
		}
	}
	return Pointer{names}, nil
}

// IsZero reports whether p is none.
func (p Pointer) IsZero() bool { return len(p.names) == 0 }

// In returns the number at p in a whole JSON text.
func (p Pointer) In(text []byte) (n int, ok bool) {
	s := NewScanner(p)
	s.Write(text)
	return s.End()
}
