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

	"github.com/weir-go/weir/internal/varint"
)

// WireVersion is the version of what [Wire.AppendBinary] writes. What an
// instance cannot read counts for it as absent, so that two versions can run
// side by side.
const WireVersion = 1

// ErrWire is that bytes are no Wire of a version that is known here.
var ErrWire = errors.New("responses: not a response of a version that is known here")

// A Wire is a response as the instances of a fleet pass it to each other: what
// the origin sent, and not how it was interpreted. A reader decides again, by
// its own policy, whether it may be stored, and for which requests. Or it is a
// mark: what the answers of the URL are kept apart by.
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
		b = varint.AppendText(b, text)
	}
	if kind == wireMark {
		return varint.AppendTexts(b, w.Vary), nil
	}
	b = binary.AppendUvarint(b, uint64(max(w.Status, 0))) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(w.Age))
	b = binary.AppendUvarint(b, uint64(len(w.Header)))
	for _, name := range slices.Sorted(maps.Keys(w.Header)) {
		b = varint.AppendTexts(varint.AppendText(b, name), w.Header[name])
	}
	return append(b, w.Body...), nil
}

// UnmarshalBinary reads what AppendBinary has written. Nothing of it is a part
// of b. An error matches ErrWire. What it returns can be sent: the status is
// that of a final answer, and the fields have no line breaks in them.
func (w *Wire) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || b[0] != WireVersion || b[1] != wireResponse && b[1] != wireMark {
		return ErrWire
	}
	r := varint.Reader{Rest: b[2:]}
	*w = Wire{Key: Key{Scheme: r.Text(), Host: r.Text(), Target: r.Text()}}
	if b[1] == wireMark {
		if w.Vary = r.Texts(); r.Bad || len(r.Rest) > 0 || len(w.Vary) == 0 || slices.Contains(w.Vary, "") {
			return ErrWire
		}
		return nil
	}
	w.Status = int(r.Number(599)) //nolint:gosec // bounded
	w.Age = r.Duration()
	fields := r.Count()
	w.Header = make(http.Header, fields)
	last := ""
	for range fields {
		name := r.Text()
		values := r.Texts()
		if name <= last || !sendable(name, values) { // so there is one way to write it
			return ErrWire
		}
		last, w.Header[name] = name, values
	}
	if r.Bad || w.Status < 200 {
		return ErrWire
	}
	w.Body = append(make([]byte, 0, len(r.Rest)), r.Rest...)
	return nil
}

// sendable reports whether a field cannot end before its end.
func sendable(name string, values []string) bool {
	const breaks = "\r\n\x00"
	return !strings.ContainsAny(name, breaks+": \t") &&
		!slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, breaks) })
}
