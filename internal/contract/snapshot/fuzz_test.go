package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/weir-go/weir"
)

// Whatever the input, Restore does not panic, and says what is wrong.
func FuzzRestore(f *testing.F) {
	g := weir.Must(weir.New(func(context.Context, string) (book, error) { return book{}, nil }, windows))
	_ = g.SetEntry(context.Background(), "a", weir.Entry[book]{Value: book{"old"}, Tags: []string{"t"}, Version: "1"})
	var b bytes.Buffer
	if _, err := g.Snapshot(context.Background(), &b, nil); err != nil {
		f.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		f.Add(b.Bytes(), repair)
		f.Add([]byte("weirsnap\x01\x00\xff\xff\xff"), repair)
	}
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		if repair {
			b = repaired(b)
		}
		g := books(t, windows)
		n, err := g.Restore(t.Context(), bytes.NewReader(b), nil)
		if n < 0 || err != nil && !errors.Is(err, weir.ErrSnapshot) {
			t.Errorf("Restore(%q) = %d, %v", b, n, err)
		}
		for key := range strings.SplitSeq(string(b), `"`) {
			g.Peek(key)
		}
	})
}

// repaired returns b with the right checksums, so that fuzzing gets to what the records say.
func repaired(b []byte) []byte {
	b = bytes.Clone(b)
	sum, table := uint32(0), crc32.MakeTable(crc32.Castagnoli)
	for at := len("weirsnap") + 1; len(b)-at >= 8; {
		n := int(binary.BigEndian.Uint32(b[at:]))
		if n > len(b)-at-8 {
			break
		}
		sum = crc32.Update(sum, table, b[at+4:at+4+n])
		binary.BigEndian.PutUint32(b[at+4+n:], sum)
		at += n + 8
	}
	return b
}
