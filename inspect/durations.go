package inspect

import (
	"encoding/json"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// The buckets of a [Histogram] end at the preferred numbers of the series R20 (ISO 3),
// from Shortest to Longest. There are 20 per decade, among them 1, 1.25, 1.6, 2, 2.5, 4,
// 5 and 8. Each is about an eighth above the previous one, and at most a seventh. A
// reported quantile is in the same bucket as the true one, so its error is at most that,
// and less if the bucket holds many durations.
const (
	Shortest = time.Microsecond
	Longest  = 100 * time.Second

	perDecade = 20
	decades   = 8
	buckets   = decades*perDecade + 2 // including the first, up to Shortest, and the last, above Longest
)

// bounds are the inclusive upper ends of all buckets but the last.
var bounds = makeBounds()

// starts has, for each bit length, the first bucket that a duration of that length can
// be in.
var starts = makeStarts()

func makeBounds() (b [buckets - 1]time.Duration) {
	r20 := [perDecade]time.Duration{100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900}
	unit, i := Shortest/100, 0
	for range decades {
		for _, n := range r20 {
			b[i] = n * unit
			i++
		}
		unit *= 10
	}
	b[i] = Longest
	return b
}

func makeStarts() (s [65]uint8) {
	for n := range s {
		least := time.Duration(0)
		if n > 0 && n < 64 {
			least = 1 << (n - 1)
		}
		for int(s[n]) < len(bounds) && bounds[s[n]] < least {
			s[n]++
		}
	}
	return s
}

// bucketOf returns the bucket of d.
func bucketOf(d time.Duration) int {
	i := int(starts[bits.Len64(uint64(max(d, 0)))])
	for i < len(bounds) && bounds[i] < d {
		i++
	}
	return i
}

// A Histogram counts durations. The zero Histogram is empty and ready to use. It takes
// 1.3 KB, is safe for concurrent use, and must not be copied.
type Histogram struct {
	counts [buckets]atomic.Uint64 // atomics instead of a mutex, so that Record never waits
	sum    atomic.Uint64
}

// Record adds d. A negative d counts as zero. Record allocates nothing.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(uint64(d))
}

// Durations returns a copy of the recorded durations. If Record runs at the same time,
// Sum and Count may not match exactly.
func (h *Histogram) Durations() Durations {
	sum := min(h.sum.Load(), math.MaxInt64) // reached after 292 years, with a thousand concurrent calls after four months
	d := Durations{counts: make([]uint64, buckets), Sum: time.Duration(sum)}
	for i := range h.counts {
		d.counts[i] = h.counts[i].Load()
		d.Count += d.counts[i]
	}
	return d
}

// Durations is an immutable copy of a [Histogram]. The zero Durations is empty.
type Durations struct {
	Count uint64        // number of durations
	Sum   time.Duration // sum of all durations

	counts []uint64 // by bucket, not modified once stored here; nil means none
}

// Since returns the durations in d that are not in old, an earlier copy of the same
// Histogram. In buckets where old has more, the result has none.
func (d Durations) Since(old Durations) Durations {
	if old.counts == nil {
		return d
	}
	out := Durations{Sum: max(d.Sum-old.Sum, 0), counts: make([]uint64, buckets)}
	for i := range out.counts {
		out.counts[i] = d.at(i) - min(d.at(i), old.at(i))
		out.Count += out.counts[i]
	}
	return out
}

// Add returns the durations of d and other combined.
func (d Durations) Add(other Durations) Durations {
	switch {
	case other.counts == nil:
		return d
	case d.counts == nil:
		return other
	}
	out := Durations{Count: d.Count + other.Count, Sum: d.Sum + other.Sum, counts: make([]uint64, buckets)}
	if out.Sum < 0 {
		out.Sum = math.MaxInt64
	}
	for i := range out.counts {
		out.counts[i] = d.counts[i] + other.counts[i]
	}
	return out
}

func (d Durations) at(i int) uint64 {
	if d.counts == nil {
		return 0
	}
	return d.counts[i]
}

// Quantile returns the duration that a share q of the durations did not exceed: the one
// of the nearest rank, interpolated within its bucket. A q below 0 or NaN counts as 0,
// and a q above 1 as 1. Quantile returns 0 if there are no durations, and Longest for
// longer ones.
func (d Durations) Quantile(q float64) time.Duration {
	if !(q > 0) {
		q = 0
	}
	// Reduce the rank slightly, in case rounding put it just above a whole number.
	rank := min(q, 1) * float64(d.Count) * (1 - 1e-12)
	var low time.Duration
	var before uint64
	for i, n := range d.counts {
		if i == len(bounds) {
			break
		}
		if n > 0 && float64(before+n) >= rank {
			return low + time.Duration(float64(bounds[i]-low)*(rank-float64(before))/float64(n))
		}
		low = bounds[i]
		before += n
	}
	if d.Count == 0 {
		return 0
	}
	return Longest
}

// Within returns how many durations were at most bound. bound must be the end of a
// bucket, such as 1, 2.5 or 5 times a power of ten, from Shortest to Longest; otherwise
// Within returns false.
func (d Durations) Within(bound time.Duration) (uint64, bool) {
	i := bucketOf(bound)
	if i == len(bounds) || bounds[i] != bound {
		return 0, false
	}
	var n uint64
	for ; i >= 0; i-- {
		n += d.at(i)
	}
	return n, true
}

// MarshalJSON encodes count, sum_ns, and the quantiles p50_ns, p90_ns and p99_ns, in
// nanoseconds.
func (d Durations) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count uint64        `json:"count"`
		Sum   time.Duration `json:"sum_ns"`
		P50   time.Duration `json:"p50_ns"`
		P90   time.Duration `json:"p90_ns"`
		P99   time.Duration `json:"p99_ns"`
	}{d.Count, d.Sum, d.Quantile(0.5), d.Quantile(0.9), d.Quantile(0.99)})
}
