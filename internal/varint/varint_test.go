package varint_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/varint"
)

// A complete encoding is read back. Every truncation of it is bad, in whichever
// field.
func TestReaderReadsWhatWasWrittenAndNoCutOfIt(t *testing.T) {
	b := binary.AppendUvarint(nil, 300)
	b = binary.AppendUvarint(b, uint64(time.Hour))
	b = varint.AppendText(b, "text")
	b = varint.AppendTexts(b, []string{"", "b", "cc"})
	read := func(b []byte) (r varint.Reader, same bool) {
		r.Rest = b
		n, d, text, texts := r.Number(300), r.Duration(), r.Text(), r.Texts()
		return r, n == 300 && d == time.Hour && text == "text" && slices.Equal(texts, []string{"", "b", "cc"})
	}
	if r, same := read(b); !same || r.Bad || len(r.Rest) != 0 {
		t.Errorf("read back: same %v, bad %v, %d bytes left; want true, false, 0", same, r.Bad, len(r.Rest))
	}
	for n := range b {
		if r, _ := read(b[:n]); !r.Bad || r.Rest != nil {
			t.Errorf("cut to %d of %d bytes: bad %v, rest %v; want true, nil", n, len(b), r.Bad, r.Rest)
		}
	}
}

// A number above its bound, and a length above the remaining bytes, are bad.
func TestReaderHasBounds(t *testing.T) {
	r := varint.Reader{Rest: binary.AppendUvarint(nil, 301)}
	if n := r.Number(300); n != 0 || !r.Bad {
		t.Errorf("Number(300) of 301 = %d, bad %v; want 0, true", n, r.Bad)
	}
	for _, length := range []uint64{1, 2, 1 << 40} {
		r := varint.Reader{Rest: binary.AppendUvarint(nil, length)}
		if b := r.Bytes(); b != nil || !r.Bad {
			t.Errorf("Bytes with the length %d and nothing after it = %v, bad %v; want nil, true", length, b, r.Bad)
		}
	}
}

// Appending to bytes that were read does not overwrite what follows them.
func TestReaderBytesAreCapped(t *testing.T) {
	r := varint.Reader{Rest: varint.AppendText(varint.AppendText(nil, "a"), "b")}
	_ = append(r.Bytes(), 'x', 'y')
	if s := r.Text(); s != "b" || r.Bad {
		t.Errorf("Text after appending to the previous bytes = %q, bad %v; want b, false", s, r.Bad)
	}
}
