package requests

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"

	"github.com/weir-go/weir/adapter/weirotel"
)

// Limit is the maximum number of sets of attributes, equal to the SDK's default. The
// last set stands for all that come after the others.
const Limit = 2000

// rest are the attributes of that last set.
var rest = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))

var _ sdkmetric.Producer = (*Counts)(nil)

// Counts count the durations of requests. Create them with [New]. They are safe for
// concurrent use.
type Counts struct {
	start time.Time

	mu     sync.Mutex
	by     map[attribute.Distinct]*histogram // guarded by mu
	series []*histogram                      // guarded by mu; the values of by, in the order of their creation
}

// New returns empty Counts.
func New() *Counts {
	return &Counts{start: time.Now(), by: make(map[attribute.Distinct]*histogram)}
}

// Recorder returns the Recorder of requests with the attributes s. It is meant for
// [weirotel.Options].
func (c *Counts) Recorder(s attribute.Set) weirotel.Recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.by[s.Equivalent()]; h != nil {
		return h
	}
	if len(c.series) >= Limit-1 {
		s = rest
		if h := c.by[s.Equivalent()]; h != nil {
			return h
		}
	}
	h := newHistogram(s)
	c.by[s.Equivalent()] = h
	c.series = append(c.series, h)
	return h
}

// Produce implements [sdkmetric.Producer].
func (c *Counts) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	points := make([]metricdata.HistogramDataPoint[float64], 0, len(c.series))
	now := time.Now()
	for _, h := range c.series {
		if p := h.read(); p.Count > 0 {
			p.StartTime, p.Time = c.start, now
			points = append(points, p)
		}
	}
	if len(points) == 0 {
		return nil, nil
	}
	var like httpconv.ServerRequestDuration
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: weirotel.Scope, SchemaURL: semconv.SchemaURL},
		Metrics: []metricdata.Metrics{{
			Name: like.Name(), Description: like.Description(), Unit: like.Unit(),
			Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
		}},
	}}, nil
}
