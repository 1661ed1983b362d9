package weirotel

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Recorder counts durations that all have the same attributes. It is safe for
// concurrent use. It can be called for each request.
type Recorder interface {
	// Record adds d, the duration of work that ran in ctx.
	Record(ctx context.Context, d time.Duration)
}

var _ Recorder = (*measured)(nil)

// measured is an instrument with its prepared attributes.
type measured struct {
	inst  metric.Float64Histogram
	attrs []metric.RecordOption
}

// Record implements [Recorder].
func (m *measured) Record(ctx context.Context, d time.Duration) {
	m.inst.Record(ctx, d.Seconds(), m.attrs...)
}

// by returns a function that creates Recorders for inst.
func by(inst metric.Float64Histogram) func(attribute.Set) Recorder {
	return func(s attribute.Set) Recorder {
		return &measured{inst, []metric.RecordOption{metric.WithAttributeSet(s)}}
	}
}

// maxSets bounds a sets. Recorders beyond it are created for each measurement.
const maxSets = 4096

// sets caches the Recorder for each key, which determines the attributes of a
// measurement, so that a measurement allocates nothing.
type sets[K comparable] struct {
	recorder func(attribute.Set) Recorder

	now atomic.Pointer[map[K]Recorder] // read for each measurement, by all at once: a mutex would be contended
	mu  sync.Mutex                     // held while now is replaced
}

// get returns the Recorder of k, whose attributes attrs returns.
func (s *sets[K]) get(k K, attrs func(K) []attribute.KeyValue) Recorder {
	if m := s.now.Load(); m != nil {
		if r, ok := (*m)[k]; ok {
			return r
		}
	}
	r := s.recorder(attribute.NewSet(attrs(k)...))
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[K]Recorder{}
	if m := s.now.Load(); m != nil {
		if len(*m) >= maxSets {
			return r
		}
		next = maps.Clone(*m)
	}
	next[k] = r
	s.now.Store(&next)
	return r
}
