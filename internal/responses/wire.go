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

// WireVersion is the version of the format that [Wire.AppendBinary] writes. An
// instance treats a version that it cannot read as absent, so two versions can
// run side by side.
const WireVersion = 1

// ErrWire is returned for bytes that are not a Wire of a known version.
var ErrWire = errors.New("responses: not a response in a known format version")

// A Wire is a response as the instances of a fleet exchange it: what the origin
// sent, without any interpretation. The reader decides again, by its own policy,
// whether it may be stored and for which requests. Alternatively, a Wire is a
// mark, which holds the selecting names of a URL's responses.
type Wire struct {
	Key   Key      // compared in full, because key names may be hashes
	Proof string   // as in Stored
	Vary  []string // only in a mark; a response has none here

	Status int
	Age    time.Duration // at the time of sending
	Header http.Header   // as in Stored
	Body   []byte
}

const (
	wireResponse = 'r'
	wireMark     = 'v'
	// For a read with a body, the key and the proof stand after the first three texts.
	// An instance that does not know these kinds does not ask for such keys either.
	wireReadResponse = 'R'
	wireReadMark     = 'V'
)

// AppendBinary appends w to b: the version, the kind, then numbers as unsigned
// varints and strings preceded by their length. Fields are in the order of their
// names. It fails if Age is negative.
func (w *Wire) AppendBinary(b []byte) ([]byte, error) {
	if w.Age < 0 {
		return nil, fmt.Errorf("responses: negative age %v", w.Age)
	}
	texts := []string{w.Key.Scheme, w.Key.Host, w.Key.Target}
	kind := byte(wireResponse)
	if len(w.Vary) > 0 {
		kind = wireMark
	}
	if w.Key.Body != "" {
		kind = wireReadResponse
		if len(w.Vary) > 0 {
			kind = wireReadMark
		}
		texts = append(texts, w.Key.Body, w.Proof)
	}
	b = append(b, WireVersion, kind)
	for _, text := range texts {
		b = varint.AppendText(b, text)
	}
	if len(w.Vary) > 0 {
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

// UnmarshalBinary parses what AppendBinary wrote. The result does not refer to b.
// An error matches ErrWire. The result can be sent as a response: the status is
// that of a final response, and the fields contain no line breaks.
func (w *Wire) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || b[0] != WireVersion {
		return ErrWire
	}
	mark, read := false, false
	switch b[1] {
	case wireResponse:
	case wireMark:
		mark = true
	case wireReadResponse:
		read = true
	case wireReadMark:
		mark, read = true, true
	default:
		return ErrWire
	}
	r := varint.Reader{Rest: b[2:]}
	*w = Wire{Key: Key{Scheme: r.Text(), Host: r.Text(), Target: r.Text()}}
	if read {
		if w.Key.Body, w.Proof = r.Text(), r.Text(); w.Key.Body == "" {
			return ErrWire // enforces a single encoding
		}
	}
	if mark {
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
		if name <= last || !sendable(name, values) { // enforces a single encoding
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

// sendable reports whether a field can be written without being split: it has no
// line breaks, and no colon or blank in its name.
func sendable(name string, values []string) bool {
	const breaks = "\r\n\x00"
	return !strings.ContainsAny(name, breaks+": \t") &&
		!slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, breaks) })
}
