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

// ends are those of the buckets, but of the last, which has none. They are the
// semantic conventions', and belong to their buckets.
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

// A histogram counts durations. Atomics, as all requests of a route come here at
// once, and a lock would be waited for. Record writes the bucket last and read
// reads it first, so that what is counted is in the sum too; more may be in it.
type histogram struct {
	least, most atomic.Int64  // of all; what newHistogram sets without any
	sum         atomic.Uint64 // of those since the last read
	counts      [len(ends) + 1]atomic.Uint64

	attrs  attribute.Set
	before float64 // seconds; guarded by Counts.mu: what was taken out of sum, which would overflow one day
}

func newHistogram(s attribute.Set) *histogram {
	h := &histogram{attrs: s}
	h.least.Store(math.MaxInt64)
	h.most.Store(math.MinInt64)
	return h
}

// Record is of [weirotel.Recorder]. It allocates nothing.
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

// read returns what has been counted, as a point without its times. Counts.mu must
// be held.
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
