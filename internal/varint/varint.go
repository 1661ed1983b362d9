// Package varint reads and writes the fields of our wire formats: numbers as unsigned
// varints, and texts and bytes after their length.
package varint

import (
	"encoding/binary"
	"math"
	"time"
)

// AppendText appends s after its length.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendTexts appends all after their number.
func AppendTexts(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = AppendText(b, s)
	}
	return b
}

// A Reader takes fields off Rest. After the first field that is missing or out of its
// bound, Bad is true, Rest is nil, and all other fields are zero.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Number reads a number up to most.
func (r *Reader) Number(most uint64) uint64 {
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 || n > most {
		r.Bad, r.Rest = true, nil
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Duration reads a duration, which is not negative.
func (r *Reader) Duration() time.Duration { return time.Duration(r.Number(math.MaxInt64)) } //nolint:gosec // bounded

// Count reads how many fields follow. Each takes at least a byte, so the bytes that
// are left bound what a caller allocates for them.
func (r *Reader) Count() int { return int(r.Number(uint64(len(r.Rest)))) } //nolint:gosec // bounded

// Bytes reads bytes, which are a part of Rest.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	if n > len(r.Rest) { // the length took some of the bytes itself
		r.Bad, r.Rest = true, nil
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Text reads a copy of bytes.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Texts reads several texts.
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
