package inspect

import (
	"encoding/json"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// The buckets of a [Histogram] end at the preferred numbers of the series R20
// (ISO 3), from Shortest to Longest: 20 a decade, each about an eighth above the
// one before, at most a seventh, among them 1, 1.25, 1.6, 2, 2.5, 4, 5 and 8. A
// quantile in between is reported as its bucket's, so it is at most that wrong,
// and less where there are many in the bucket.
const (
	Shortest = time.Microsecond
	Longest  = 100 * time.Second

	perDecade = 20
	decades   = 8
	buckets   = decades*perDecade + 2 // with the first, up to Shortest, and the last, beyond Longest
)

// bounds are the ends of all buckets but the last, and belong to them.
var bounds = makeBounds()

// starts has, for each number of bits, the first bucket that a duration of so
// many could be in.
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

// A Histogram counts durations. The zero Histogram is empty and ready. It takes
// 1.3 KB, is safe for concurrent use, and must not be copied.
type Histogram struct {
	counts [buckets]atomic.Uint64 // atomics: a lock would have to be waited for, and guard no more than this
	sum    atomic.Uint64
}

// Record adds d; less than zero counts as zero. It allocates nothing.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(uint64(d))
}

// Durations returns what has been recorded. Under traffic its Sum need not fit its
// Count exactly.
func (h *Histogram) Durations() Durations {
	sum := min(h.sum.Load(), math.MaxInt64) // after 292 years: of a thousand calls at a time, in four months
	d := Durations{counts: make([]uint64, buckets), Sum: time.Duration(sum)}
	for i := range h.counts {
		d.counts[i] = h.counts[i].Load()
		d.Count += d.counts[i]
	}
	return d
}

// Durations are how often something took how long: a copy of a [Histogram] that
// does not change any more. The zero Durations are none.
type Durations struct {
	Count uint64
	Sum   time.Duration

	counts []uint64 // by bucket, never written to once it is here; nil: none
}

// Since returns those of d that were not in old, which was read before from the
// same Histogram. Where old has more, there are none.
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

// Add returns those of d and of other together.
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

// Quantile returns the duration that the share q of all did not exceed: that of
// the nearest rank, interpolated within its bucket. A q below 0 or NaN is 0, and
// one above 1 is 1. It returns 0 of none, and Longest for what took longer.
func (d Durations) Quantile(q float64) time.Duration {
	if !(q > 0) {
		q = 0
	}
	// The rank is a whole number where q·Count is, but for its last digits.
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

// Within returns how many took at most bound, which must be the end of a bucket,
// such as 1, 2.5 and 5 of any power of ten from Shortest to Longest; it reports
// false if it is not.
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

// MarshalJSON writes count, sum_ns, and the quantiles p50_ns, p90_ns and p99_ns, in
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
