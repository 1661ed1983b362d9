// Package varint reads and writes the fields of weir's wire formats: numbers as
// unsigned varints, and strings and bytes preceded by their length.
package varint

import (
	"encoding/binary"
	"math"
	"time"
)

// AppendText appends the length of s, then s.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTexts appends the number of strings, then each of them.
func AppendTexts(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = AppendText(b, s)
	}
	return b
}

// A Reader reads fields from the front of Rest. After the first field that is
// missing or out of bounds, Bad is true, Rest is nil, and all later fields are
// zero.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Number reads a number of at most most.
func (r *Reader) Number(most uint64) uint64 {
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 || n > most {
		r.Bad, r.Rest = true, nil
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Duration reads a non-negative duration.
func (r *Reader) Duration() time.Duration { return time.Duration(r.Number(math.MaxInt64)) } //nolint:gosec // bounded

// Count reads the number of fields that follow. Each field takes at least a byte,
// so the remaining bytes bound what a caller allocates for them.
func (r *Reader) Count() int { return int(r.Number(uint64(len(r.Rest)))) } //nolint:gosec // bounded

// Bytes reads bytes. The result is a slice of Rest.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	if n > len(r.Rest) { // the length itself took some of the bytes
		r.Bad, r.Rest = true, nil
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Text reads a string, which is a copy.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Texts reads several strings.
func (r *Reader) Texts() []string {
	n := r.Count()
	all := make([]string, 0, min(n, 1024))
	for range n {
		if r.Bad {
			return nil
		}
		all = append(all, r.Text())
	}
	return all
}
