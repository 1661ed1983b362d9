package requests

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/adapter/weirotel"
)

// ends are the upper bounds of the buckets, except the last bucket, which has none.
// They are those of the semantic conventions, and inclusive.
var ends = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 7500 * time.Millisecond, 10 * time.Second,
}

// bounds are ends in seconds.
var bounds = func() (b [len(ends)]float64) {
	for i, d := range ends {
		b[i] = d.Seconds()
	}
	return b
}()

var _ weirotel.Recorder = (*histogram)(nil)

// A histogram counts durations. It uses atomics, because all requests of a route call
// it concurrently, and a lock would be contended. Record writes the bucket last and
// read reads it first, so that the sum includes everything that is counted; it may
// include more.
type histogram struct {
	least, most atomic.Int64  // of all durations; initially as newHistogram sets them
	sum         atomic.Uint64 // of the durations since the last read
	counts      [len(ends) + 1]atomic.Uint64

	attrs  attribute.Set
	before float64 // seconds; guarded by Counts.mu: moved here from sum, which would otherwise overflow
}

func newHistogram(s attribute.Set) *histogram {
	h := &histogram{attrs: s}
	h.least.Store(math.MaxInt64)
	h.most.Store(math.MinInt64)
	return h
}

// Record implements [weirotel.Recorder]. It allocates nothing.
func (h *histogram) Record(_ context.Context, d time.Duration) {
	d = max(d, 0)
	for v := h.least.Load(); int64(d) < v && !h.least.CompareAndSwap(v, int64(d)); {
		v = h.least.Load()
	}
	for v := h.most.Load(); int64(d) > v && !h.most.CompareAndSwap(v, int64(d)); {
		v = h.most.Load()
	}
	h.sum.Add(uint64(d))
	i := 0
	for i < len(ends) && ends[i] < d {
		i++
	}
	h.counts[i].Add(1)
}

// read returns the counts as a point without its times. Counts.mu must be held.
func (h *histogram) read() metricdata.HistogramDataPoint[float64] {
	p := metricdata.HistogramDataPoint[float64]{
		Attributes: h.attrs, Bounds: slices.Clone(bounds[:]), BucketCounts: make([]uint64, len(h.counts)),
	}
	for i := range h.counts {
		p.BucketCounts[i] = h.counts[i].Load()
		p.Count += p.BucketCounts[i]
	}
	h.before += float64(h.sum.Swap(0)) / float64(time.Second)
	p.Sum = h.before
	p.Min = metricdata.NewExtrema(time.Duration(h.least.Load()).Seconds())
	p.Max = metricdata.NewExtrema(time.Duration(h.most.Load()).Seconds())
	return p
}
