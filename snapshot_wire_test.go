package weir

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
)

// E10: a reader stops at its bound for all records together.
func TestE10_ReadingIsBounded(t *testing.T) {
	var b bytes.Buffer
	out := &snapshotWriter{w: bufio.NewWriter(&b)}
	for range 3 {
		out.record(make([]byte, 100))
	}
	if err := errors.Join(out.err, out.w.Flush()); err != nil {
		t.Fatal(err)
	}
	in := &snapshotReader{r: bufio.NewReader(&b), left: 2 * (100 + recordOverhead)}
	for i := range 3 {
		if _, err := in.next(); errors.Is(err, ErrSnapshot) != (i == 2) {
			t.Errorf("record %d of 3, with room for 2: %v", i+1, err)
		}
	}
}
