package load

import (
	"math/bits"
	"time"
)

// A histogram counts latencies in microseconds with three significant digits: values below
// 2048 exactly, and each doubling above in 1024 parts of equal width, as in HdrHistogram.
// The zero histogram is empty. It is not safe for concurrent use.
type histogram struct {
	counts []int64 // by bucket, as long as the highest that has a value
	total  int64
}

// exact is how many of the lowest values have a bucket each; it is a power of two.
const exact = 2048

// bucket returns the bucket of v, which is at least 0.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-bits.Len64(exact-1))
	return shift*(exact/2) + int(v>>shift)
}

// highest returns the highest value of bucket i.
func highest(i int) uint64 {
	if i < exact {
		return uint64(i)
	}
	shift := i/(exact/2) - 1
	return uint64(i-shift*(exact/2)+1)<<shift - 1
}

// record counts d. Negative times count as 0.
func (h *histogram) record(d time.Duration) {
	i := bucket(uint64(max(0, d.Microseconds())))
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.total++
}

// percentile returns a time that p percent of the values are not above, and at most 0.1 %
// above the exact one; 0 if there are no values. p is 1 to 100.
func (h *histogram) percentile(p int64) time.Duration {
	below := (h.total*p + 99) / 100
	for i, n := range h.counts {
		if below -= n; n > 0 && below <= 0 {
			return time.Duration(highest(i)) * time.Microsecond
		}
	}
	return 0
}
