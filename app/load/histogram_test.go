package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Percentiles are those of the sorted values, to three significant digits.
func TestHistogramPercentiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int64{1, 100, 2047, 2048, 2049, 100_000, int64(10 * time.Hour / time.Microsecond)} {
		var h histogram
		var all []int64
		for range 5000 {
			v := r.Int64N(most + 1)
			all = append(all, v)
			h.record(time.Duration(v) * time.Microsecond)
		}
		slices.Sort(all)
		for _, p := range []int64{1, 50, 90, 99, 100} {
			got, want := h.percentile(p).Microseconds(), all[len(all)*int(p)/100-1]
			if got < want || got > want+want/1000 || want < exact && got != want {
				t.Errorf("values up to %d: percentile(%d) = %d; want %d, at most 0.1 %% more", most, p, got, want)
			}
		}
	}
}

func TestHistogramBucketsAdjoin(t *testing.T) {
	for i := range 20 * exact {
		if v := highest(i); bucket(v) != i || bucket(v+1) != i+1 {
			t.Fatalf("bucket(%d), bucket(%d) = %d, %d; want %d, %d", v, v+1, bucket(v), bucket(v+1), i, i+1)
		}
	}
}

func TestHistogramWithoutValues(t *testing.T) {
	var h histogram
	if got := h.percentile(99); got != 0 {
		t.Errorf("percentile of no values = %v; want 0", got)
	}
}
