package inspect_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/inspect"
)

const ms = time.Millisecond

// recorded returns the Durations of a Histogram with all durations.
func recorded(all ...time.Duration) inspect.Durations {
	var h inspect.Histogram
	for _, d := range all {
		h.Record(d)
	}
	return h.Durations()
}

// Each bucket ends at most a seventh above the previous one, and all decades have the
// same pattern.
func TestBucketsEndAtPreferredNumbers(t *testing.T) {
	b := inspect.Bounds
	if b[0] != inspect.Shortest || b[len(b)-1] != inspect.Longest || len(b) != 161 {
		t.Fatalf("%d buckets from %v to %v; want 161 from %v to %v", len(b), b[0], b[len(b)-1], inspect.Shortest, inspect.Longest)
	}
	for i := 1; i < len(b); i++ {
		if ratio := float64(b[i]) / float64(b[i-1]); ratio < 1.1 || ratio > 8./7+1e-9 {
			t.Errorf("bucket %d ends at %v, the previous one at %v: %.3f times; want from 1.1 to 8/7", i, b[i], b[i-1], ratio)
		}
		if i >= 20 && b[i] != 10*b[i-20] {
			t.Errorf("bucket %d ends at %v; want ten times %v", i, b[i], b[i-20])
		}
	}
}

// Each bucket holds the durations above the end of the previous one, up to and including
// its own end.
func TestBucketOfEveryEdge(t *testing.T) {
	b := inspect.Bounds
	for i, end := range b {
		for d, want := range map[time.Duration]int{end: i, end + 1: i + 1, end - 1: i} {
			if got := inspect.BucketOf(d); got != want {
				t.Errorf("bucket of %d ns is %d; want %d", d, got, want)
			}
		}
	}
	for d, want := range map[time.Duration]int{math.MinInt64: 0, -1: 0, 0: 0, 1: 0, math.MaxInt64: len(b), time.Hour: len(b)} {
		if got := inspect.BucketOf(d); got != want {
			t.Errorf("bucket of %d ns is %d; want %d", d, got, want)
		}
	}
}

func FuzzBucketOf(f *testing.F) {
	for _, d := range []int64{0, 1, 999, 1000, 1001, 1 << 20, 1 << 36, int64(inspect.Longest), math.MaxInt64, math.MinInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, d int64) {
		want, _ := slices.BinarySearch(inspect.Bounds, time.Duration(d))
		if got := inspect.BucketOf(time.Duration(d)); got != want {
			t.Errorf("bucket of %d ns is %d; want %d", d, got, want)
		}
	})
}

func FuzzQuantile(f *testing.F) {
	f.Add(uint64(1), uint16(1), 0.5)
	f.Add(uint64(2), uint16(100), 0.99)
	f.Add(uint64(3), uint16(1000), 0.07)
	f.Add(uint64(4), uint16(7), math.NaN())
	f.Add(uint64(5), uint16(7), math.Inf(1))
	f.Add(uint64(6), uint16(7), -1.0)
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, q float64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = time.Duration(math.Exp(rnd.Float64() * 27)) // up to about ten minutes
		}
		wantQuantile(t, all, q)
	})
}

// wantQuantile compares the quantile q of all with the exact one, by nearest rank: both
// must be in the same bucket.
func wantQuantile(t *testing.T, all []time.Duration, q float64) {
	t.Helper()
	got := recorded(all...).Quantile(q)
	if len(all) == 0 {
		if got != 0 {
			t.Errorf("Quantile(%v) without durations = %v; want 0", q, got)
		}
		return
	}
	sorted := slices.Sorted(slices.Values(all))
	rank := 1.0
	if q > 0 {
		rank = max(1, math.Ceil(min(q, 1)*float64(len(all))*(1-1e-12)))
	}
	exact := sorted[int(rank)-1]
	low, high := time.Duration(0), inspect.Longest
	i := inspect.BucketOf(exact)
	if i > 0 {
		low = inspect.Bounds[i-1]
	}
	if i < len(inspect.Bounds) {
		high = inspect.Bounds[i]
	}
	if got < low || got > high || i == len(inspect.Bounds) && got != inspect.Longest {
		t.Errorf("Quantile(%v) of %d durations = %v; want from %v to %v, the bucket of the exact %v", q, len(all), got, low, high, exact)
	}
}

// A reported quantile is in the bucket of the true one, for many distributions.
func TestQuantilesOfManyShapes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() time.Duration{
		"constant":    func() time.Duration { return 10 * ms },
		"exponential": func() time.Duration { return time.Duration(rnd.ExpFloat64() * float64(20*ms)) },
		"uniform":     func() time.Duration { return time.Duration(rnd.Int64N(int64(time.Second))) },
		"two humps": func() time.Duration {
			return []time.Duration{ms, 300 * ms}[rnd.IntN(2)] + time.Duration(rnd.IntN(1000))
		},
		"Pareto": func() time.Duration { return time.Duration(float64(ms) / math.Pow(rnd.Float64(), 1/1.2)) },
	}
	for name, shape := range shapes {
		for _, n := range []int{1, 2, 3, 10, 99, 100, 1000, 20_000} {
			all := make([]time.Duration, n)
			for i := range all {
				all[i] = shape()
			}
			for _, q := range []float64{-1, 0, 0.001, 0.07, 0.25, 0.5, 0.9, 0.99, 0.999, 1, 2, math.NaN()} {
				wantQuantile(t, all, q)
			}
		}
		if t.Failed() {
			t.Fatalf("shape %s", name)
		}
	}
}

// If a bucket holds many durations, the error of a quantile is smaller than the bucket.
func TestQuantileIsInterpolated(t *testing.T) {
	var h inspect.Histogram
	for d := time.Duration(0); d < time.Second; d += 10 * time.Microsecond {
		h.Record(d)
	}
	all := h.Durations()
	for _, q := range []float64{0.1, 0.33, 0.5, 0.75, 0.99} {
		want := q * float64(time.Second)
		if got := float64(all.Quantile(q)); math.Abs(got-want) > 0.002*want {
			t.Errorf("Quantile(%v) of uniform durations = %v; want %v within 0.2 %%", q, time.Duration(got), time.Duration(want))
		}
	}
}

func TestWithinCountsUpToABound(t *testing.T) {
	d := recorded(0, 5*ms-1, 5*ms, 5*ms+1, 10*ms, 100*time.Second, 200*time.Second)
	for _, row := range []struct {
		bound time.Duration
		want  uint64
		ok    bool
	}{
		{time.Microsecond, 1, true}, {2 * ms, 1, true}, {5 * ms, 3, true}, {10 * ms, 5, true}, {2500 * ms, 5, true},
		{100 * time.Second, 6, true},
		{0, 0, false}, {-ms, 0, false}, {3 * ms, 0, false}, {5*ms + 1, 0, false}, {200 * time.Second, 0, false}, {time.Nanosecond, 0, false},
	} {
		if got, ok := d.Within(row.bound); got != row.want || ok != row.ok {
			t.Errorf("Within(%v) = %d, %v; want %d, %v", row.bound, got, ok, row.want, row.ok)
		}
	}
	for unit := inspect.Shortest; unit <= inspect.Longest; unit *= 10 {
		for _, tenth := range []time.Duration{10, 20, 25, 50} {
			bound := unit * tenth / 10
			if _, ok := d.Within(bound); ok != (bound <= inspect.Longest) {
				t.Errorf("Within(%v) reports %v", bound, ok)
			}
		}
	}
	if n, ok := (inspect.Durations{}).Within(ms); n != 0 || !ok {
		t.Errorf("Within without durations = %d, %v; want 0, true", n, ok)
	}
}

// Since is the inverse of Add.
func TestSinceAndAnd(t *testing.T) {
	var h inspect.Histogram
	rnd := rand.New(rand.NewPCG(3, 4))
	some := func(n int) {
		for range n {
			h.Record(time.Duration(rnd.Int64N(int64(time.Minute))))
		}
	}
	some(100)
	before := h.Durations()
	some(50)
	after := h.Durations()
	since := after.Since(before)
	if since.Count != 50 || since.Sum != after.Sum-before.Sum {
		t.Errorf("Since = %d in %v; want 50 in %v", since.Count, since.Sum, after.Sum-before.Sum)
	}
	again := before.Add(since)
	for _, q := range []float64{0, 0.2, 0.5, 0.9, 1} {
		if got, want := again.Quantile(q), after.Quantile(q); got != want {
			t.Errorf("Quantile(%v) of a sum = %v; want %v", q, got, want)
		}
	}
	if again.Count != after.Count || again.Sum != after.Sum {
		t.Errorf("Add = %d in %v; want %d in %v", again.Count, again.Sum, after.Count, after.Sum)
	}
	if before.Count != 100 || since.Count != 50 {
		t.Errorf("Add changed its arguments: %d, %d; want 100, 50", before.Count, since.Count)
	}
	if none := before.Since(after); none.Count != 0 || none.Sum != 0 {
		t.Errorf("Since a larger copy = %d in %v; want none", none.Count, none.Sum)
	}
	var zero inspect.Durations
	for name, d := range map[string]inspect.Durations{"none and": zero.Add(before), "and none": before.Add(zero), "since none": before.Since(zero)} {
		if d.Count != 100 || d.Sum != before.Sum || d.Quantile(0.5) != before.Quantile(0.5) {
			t.Errorf("%s: %d in %v; want %d in %v", name, d.Count, d.Sum, before.Count, before.Sum)
		}
	}
	if d := zero.Since(before).Add(zero); d.Count != 0 || d.Sum != 0 || d.Quantile(0.5) != 0 {
		t.Errorf("none since some = %d in %v; want none", d.Count, d.Sum)
	}
}

// Sums that overflow are capped at the longest duration, and are never negative.
func TestSumsAreNotNegative(t *testing.T) {
	d := recorded(math.MaxInt64, math.MaxInt64, -ms)
	if d.Count != 3 || d.Sum != math.MaxInt64 {
		t.Errorf("%d in %v; want 3 in the longest duration", d.Count, d.Sum)
	}
	if d = d.Add(d); d.Count != 6 || d.Sum != math.MaxInt64 {
		t.Errorf("Add = %d in %v; want 6 in the longest duration", d.Count, d.Sum)
	}
}

func TestDurationsAsJSON(t *testing.T) {
	for _, row := range []struct {
		d    inspect.Durations
		want string
	}{
		{inspect.Durations{}, `{"count":0,"sum_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0}`},
		{recorded(time.Hour), `{"count":1,"sum_ns":3600000000000,"p50_ns":100000000000,"p90_ns":100000000000,"p99_ns":100000000000}`},
	} {
		if got, err := json.Marshal(row.d); string(got) != row.want || err != nil {
			t.Errorf("JSON %s, %v; want %s", got, err, row.want)
		}
	}
	var told struct {
		Count uint64        `json:"count"`
		P50   time.Duration `json:"p50_ns"`
	}
	b, err := json.Marshal(struct{ D inspect.Durations }{recorded(ms, 2*ms, 3*ms)})
	if err == nil {
		err = json.Unmarshal(b, &struct{ D any }{&told})
	}
	if want := recorded(ms, 2*ms, 3*ms).Quantile(0.5); err != nil || told.Count != 3 || told.P50 != want {
		t.Errorf("within a struct: %s, %v; want count 3, p50_ns %d", b, err, want)
	}
}

// Only the functions that return new Durations allocate, once each.
func TestAllocations(t *testing.T) {
	var h inspect.Histogram
	h.Record(ms)
	a := h.Durations()
	var n uint64
	for _, row := range []struct {
		name string
		do   func()
		want float64
	}{
		{"Record", func() { h.Record(3 * ms) }, 0},
		{"Durations", func() { n += h.Durations().Count }, 1},
		{"Quantile", func() { n += uint64(a.Quantile(0.9)) }, 0},
		{"Within", func() { m, _ := a.Within(5 * ms); n += m }, 0},
		{"Since", func() { n += a.Since(a).Count }, 1},
		{"Add", func() { n += a.Add(a).Count }, 1},
	} {
		if got := testing.AllocsPerRun(100, row.do); got > row.want {
			t.Errorf("%s allocates %v times; want %v", row.name, got, row.want)
		}
	}
}

// With many writers and a reader at once, no duration is lost, and copies do not change.
func TestHistogramUnderTraffic(t *testing.T) {
	const writers, each = 4, 2000
	var h inspect.Histogram
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				h.Record(time.Duration(i) * ms)
			}
		})
	}
	all.Go(func() {
		var last uint64
		for range 200 {
			d := h.Durations()
			if in, _ := d.Within(inspect.Longest); in != d.Count || d.Count < last {
				t.Errorf("%d of %d within Longest, %d before; want all of them, and never fewer than before", in, d.Count, last)
			}
			last = d.Count
		}
	})
	all.Wait()
	want := time.Duration(writers*each*(each-1)/2) * ms
	if d := h.Durations(); d.Count != writers*each || d.Sum != want {
		t.Errorf("%d in %v; want %d in %v", d.Count, d.Sum, writers*each, want)
	}
}
