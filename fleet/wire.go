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

// WireVersion is the version of what AppendBinary writes. Instances of two
// versions may run side by side: what one cannot read counts as absent for it.
const WireVersion = 1

// A Value is an entry as the instances pass it to each other: the bytes of the
// user's value, and what has become of it.
type Value struct {
	Kind   ValueKind
	TTL    time.Duration // how long it was fresh from its load on
	SWR    time.Duration // how long it may be served stale after that, while it is refreshed
	SIE    time.Duration // how long after TTL in place of an error
	Cost   time.Duration // how long its load took
	Weight uint32
	// TagSeq is the number of invalidations by tag of the namespace of which
	// the load knew when it began: the entry is out of date if one of its Tags
	// has a higher one.
	TagSeq  uint64
	Tags    []string
	Version string // of the source, as an ETag
	Codec   string // the Codec's name
	Data    []byte
}

// A ValueKind is the kind of a Value.
type ValueKind uint8

const (
	KindValue    ValueKind = iota
	KindNotFound           // the source does not have the key; Data is the message
)

// A Codec turns values into bytes and back, for the other instances. It is
// called on many goroutines at once. Its Name travels with the bytes; bytes of
// another name are not decoded. Change it when the meaning of the bytes changes.
type Codec interface {
	Name() string
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes into what v points to, and keeps nothing of data.
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

// ErrWire is matched by the error of a Value that cannot be read: it is cut, or
// of a version that this instance does not know.
var ErrWire = errors.New("fleet: not an entry of a version that is known here")

// maxWireTags bounds what UnmarshalBinary makes of bytes that lie.
const maxWireTags = 1 << 16

// AppendBinary appends v to b: a version byte, the kind, and then lengths,
// durations and numbers as unsigned varints, strings and Data after their
// length. It fails on a negative duration.
func (v *Value) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, WireVersion, byte(v.Kind))
	for _, d := range []time.Duration{v.TTL, v.SWR, v.SIE, v.Cost} {
		if d < 0 {
			return nil, fmt.Errorf("fleet: a duration of %v in an entry", d)
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

// UnmarshalBinary reads what AppendBinary has written. Data is a part of b. An
// error matches ErrWire.
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
