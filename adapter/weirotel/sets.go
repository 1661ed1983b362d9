package weirotel

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSets bounds a sets. What is beyond it is made each time.
const maxSets = 4096

// sets remembers the attributes of measurements by what they are made from, so
// that a measurement allocates nothing. The zero sets is empty and ready.
type sets[K comparable] struct {
	now atomic.Pointer[map[K][]metric.RecordOption] // read for each measurement, by all at once: a mutex would be contended

	mu sync.Mutex // of who replaces it
}

// get returns the options of k, made by attrs if they are not known yet.
func (s *sets[K]) get(k K, attrs func(K) []attribute.KeyValue) []metric.RecordOption {
	if m := s.now.Load(); m != nil {
		if o, ok := (*m)[k]; ok {
			return o
		}
	}
	o := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs(k)...))}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[K][]metric.RecordOption{}
	if m := s.now.Load(); m != nil {
		if len(*m) >= maxSets {
			return o
		}
		next = maps.Clone(*m)
	}
	next[k] = o
	s.now.Store(&next)
	return o
}
