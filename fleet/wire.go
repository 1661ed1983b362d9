package fleet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/internal/varint"
)

// WireVersion is the version of the format that AppendBinary writes. Instances of two
// versions may run side by side: an instance treats an entry that it cannot read as
// absent.
const WireVersion = 1

// A Value is an entry in the form that instances exchange: the bytes of the user's
// value, and its metadata.
type Value struct {
	Kind   ValueKind     // what Data is
	TTL    time.Duration // how long it was fresh after its load
	SWR    time.Duration // how long after that it may be served stale while it is refreshed
	SIE    time.Duration // how long after TTL it may be served instead of an error
	Cost   time.Duration // how long its load took
	Weight uint32        // the value's weight, as the Guard's Weigh returned it
	// TagSeq is the last invalidation number of the namespace that the load knew when
	// it began: the entry is out of date if one of its Tags has a higher one.
	TagSeq  uint64
	Tags    []string
	Version string // of the source, as an ETag
	Codec   string // the Codec's name
	Data    []byte
}

// A ValueKind is the kind of a Value.
type ValueKind uint8

const (
	KindValue    ValueKind = iota // Data is a value
	KindNotFound                  // the source does not have the key; Data is the message
)

// A Codec encodes values for the other instances and decodes theirs. It must be safe
// for concurrent use. Its Name is stored with the bytes; an instance does not decode
// bytes with another name. Change the name when the meaning of the bytes changes.
type Codec interface {
	Name() string
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the value that v points to, and does not retain
	// data.
	Unmarshal(data []byte, v any) error
}

// JSON is the Codec of encoding/json, named "json". Unknown fields are ignored.
type JSON struct{}

var _ Codec = JSON{}

// Name returns "json".
func (JSON) Name() string { return "json" }

// Marshal is json.Marshal.
func (JSON) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal.
func (JSON) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// ErrWire matches the error of a Value that cannot be read, because it is truncated
// or has a version that this instance does not know.
var ErrWire = errors.New("fleet: not an entry in a known version")

// maxWireTags bounds what UnmarshalBinary allocates for malformed input.
const maxWireTags = 1 << 16

// AppendBinary appends v to b: a version byte, the kind, and then lengths, durations
// and numbers as unsigned varints. Strings and Data follow their length. It fails on
// a negative duration.
func (v *Value) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, WireVersion, byte(v.Kind))
	for _, d := range []time.Duration{v.TTL, v.SWR, v.SIE, v.Cost} {
		if d < 0 {
			return nil, fmt.Errorf("fleet: an entry has the negative duration %v", d)
		}
		b = binary.AppendUvarint(b, uint64(d))
	}
	b = binary.AppendUvarint(b, uint64(v.Weight))
	b = binary.AppendUvarint(b, v.TagSeq)
	b = varint.AppendTexts(b, v.Tags)
	b = varint.AppendText(b, v.Version)
	b = varint.AppendText(b, v.Codec)
	return append(binary.AppendUvarint(b, uint64(len(v.Data))), v.Data...), nil
}

// UnmarshalBinary reads the output of AppendBinary. Data aliases b. An error matches
// ErrWire.
func (v *Value) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || b[0] != WireVersion || ValueKind(b[1]) > KindNotFound {
		return ErrWire
	}
	r := varint.Reader{Rest: b[2:]}
	*v = Value{Kind: ValueKind(b[1])}
	v.TTL, v.SWR, v.SIE, v.Cost = r.Duration(), r.Duration(), r.Duration(), r.Duration()
	v.Weight = uint32(r.Number(math.MaxUint32))
	v.TagSeq = r.Number(math.MaxUint64)
	if n := r.Number(maxWireTags); n > 0 && n <= uint64(len(r.Rest)) { // each takes a byte at least
		v.Tags = make([]string, n)
		for i := range v.Tags {
			v.Tags[i] = r.Text()
		}
	} else if n > 0 {
		return ErrWire
	}
	v.Version, v.Codec = r.Text(), r.Text()
	v.Data = r.Bytes()
	if r.Bad || len(r.Rest) > 0 {
		return ErrWire
	}
	return nil
}
