package rfc9111_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

// For any Range value, the ranges served are within the body and do not overlap.
func FuzzRanges(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=-5", "bytes=5-", "bytes=0-0,2-3", "bytes=-0", "items=0-1", "bytes=0-99999999999999999999", "bytes=3-1", "bytes=0-,0-", "bytes= 1-2 , ,3-4"} {
		f.Add(s, int64(26))
	}
	f.Fuzz(func(t *testing.T, line string, size int64) {
		value, ok := rfc9111.Ranges([]string{line}, size)
		if !ok || value == "" {
			if !ok && value != "" {
				t.Fatalf("Ranges(%q, %d) = %q, though none can be satisfied", line, size, value)
			}
			return
		}
		set, found := strings.CutPrefix(value, "bytes=")
		if !found || size <= 0 {
			t.Fatalf("Ranges(%q, %d) = %q", line, size, value)
		}
		var sum int64
		for spec := range strings.SplitSeq(set, ",") {
			var first, last int64
			if n, err := fmt.Sscanf(spec, "%d-%d", &first, &last); n != 2 || err != nil || first < 0 || first > last || last >= size {
				t.Fatalf("Ranges(%q, %d) = %q: %q", line, size, value, spec)
			}
			if sum += last - first + 1; sum > size {
				t.Fatalf("Ranges(%q, %d) = %q: more bytes than the body has", line, size, value)
			}
		}
		if again, ok := rfc9111.Ranges([]string{value}, size); !ok || again != value {
			t.Fatalf("Ranges(%q, %d) = %q, and applied to that value %q, %v", line, size, value, again, ok)
		}
	})
}
