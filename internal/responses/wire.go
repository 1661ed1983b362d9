package responses

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// WireVersion is the version of what [Wire.AppendBinary] writes. What an
// instance cannot read counts for it as absent, so that two versions can run
// side by side.
const WireVersion = 1

// ErrWire is that bytes are no Wire of a version that is known here.
var ErrWire = errors.New("responses: not a response of a version that is known here")

// A Wire is a response as the instances of a fleet pass it to each other: what
// the origin said, and not what was made of it. Who reads one decides anew, by
// its own policy, whether it may be stored, and for whom. Or it is a mark: what
// the answers of the URL are kept apart by.
type Wire struct {
	Key  Key      // it is compared whole: names of keys may be hashes
	Vary []string // of a mark; a response has none here

	Status int
	Age    time.Duration // when it was sent
	Header http.Header   // as in Stored
	Body   []byte
}

const (
	wireResponse = 'r'
	wireMark     = 'v'
)

// AppendBinary appends w to b: the version, what it is, and then numbers as
// unsigned varints, and texts after their length. Fields come in the order of
// their names. It fails on a negative Age.
func (w *Wire) AppendBinary(b []byte) ([]byte, error) {
	if w.Age < 0 {
		return nil, fmt.Errorf("responses: an age of %v", w.Age)
	}
	kind := byte(wireResponse)
	if len(w.Vary) > 0 {
		kind = wireMark
	}
	b = append(b, WireVersion, kind)
	for _, text := range []string{w.Key.Scheme, w.Key.Host, w.Key.Target} {
		b = appendText(b, text)
	}
	if kind == wireMark {
		return appendTexts(b, w.Vary), nil
	}
	b = binary.AppendUvarint(b, uint64(max(w.Status, 0))) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(w.Age))
	b = binary.AppendUvarint(b, uint64(len(w.Header)))
	for _, name := range slices.Sorted(maps.Keys(w.Header)) {
		b = appendTexts(appendText(b, name), w.Header[name])
	}
	return append(b, w.Body...), nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendText(b, s)
	}
	return b
}

// UnmarshalBinary reads what AppendBinary has written. Nothing of it is a part
// of b. An error matches ErrWire. What it returns can be sent: the status is
// that of a final answer, and the fields have no line breaks in them.
func (w *Wire) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || b[0] != WireVersion || b[1] != wireResponse && b[1] != wireMark {
		return ErrWire
	}
	r := wireReader{b: b[2:]}
	*w = Wire{Key: Key{Scheme: r.text(), Host: r.text(), Target: r.text()}}
	if b[1] == wireMark {
		if w.Vary = r.texts(); r.bad || len(r.b) > 0 || len(w.Vary) == 0 || slices.Contains(w.Vary, "") {
			return ErrWire
		}
		return nil
	}
	w.Status = int(r.number(599)) //nolint:gosec // bounded
	w.Age = time.Duration(r.number(1<<63 - 1))
	fields := r.count()
	w.Header = make(http.Header, fields)
	last := ""
	for range fields {
		name := r.text()
		values := r.texts()
		if name <= last || !sendable(name, values) { // so there is one way to write it
			return ErrWire
		}
		last, w.Header[name] = name, values
	}
	if r.bad || w.Status < 200 {
		return ErrWire
	}
	w.Body = append(make([]byte, 0, len(r.b)), r.b...)
	return nil
}

// sendable reports whether a field cannot end before its end.
func sendable(name string, values []string) bool {
	const breaks = "\r\n\x00"
	return !strings.ContainsAny(name, breaks+": \t") &&
		!slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, breaks) })
}

// A wireReader takes what was written off b. After the first that is not there,
// bad is set, and all that follows is zero.
type wireReader struct {
	b   []byte
	bad bool
}

func (r *wireReader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count is the number of things that follow. Each takes a byte at least, so
// what is made for them is bounded by what is there.
func (r *wireReader) count() int { return int(r.number(uint64(len(r.b)))) } //nolint:gosec // bounded

func (r *wireReader) text() string {
	n := r.count()
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *wireReader) texts() []string {
	n := r.count()
	all := make([]string, 0, min(n, 1024))
	for range n {
		if r.bad {
			return nil
		}
		all = append(all, r.text())
	}
	return all
}
