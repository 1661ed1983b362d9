package hotkeys

import "testing"

// Check verifies the invariants of s.
func (s *Sketch[K]) Check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range map[string]*counters[K]{"calls": &s.calls, "loads": &s.loads} {
		if len(c.all) != len(c.heap) || len(c.all) != len(c.at) || cap(c.all) != perKey*s.keys {
			t.Errorf("%s: %d counters of %d, %d in the heap, %d keys; want as many of each, of %d", name, len(c.all), cap(c.all), len(c.heap), len(c.at), perKey*s.keys)
		}
		sum := 0.0
		for i, k := range c.all {
			if c.at[k.key] != int32(i) || c.heap[k.place] != int32(i) {
				t.Errorf("%s: counter %d is at place %d, where %d is; its key leads to %d", name, i, k.place, c.heap[k.place], c.at[k.key])
			}
			if !(k.excess >= 0 && k.excess <= k.count) {
				t.Errorf("%s: counter %d: excess %v, count %v", name, i, k.excess, k.count)
			}
			if parent := (k.place - 1) / 2; k.place > 0 && c.less(k.place, parent) {
				t.Errorf("%s: the counter at place %d has less than the one above", name, k.place)
			}
			sum += k.count
		}
		if sum > c.total*(1+1e-9) {
			t.Errorf("%s: counters have %v in all; want no more than the total, %v", name, sum, c.total)
		}
	}
}

// Share returns the number of calls per sampled call.
func (s *Sketch[K]) Share() int { return 1 << s.shift.Load() }

// Counters returns the maximum number of counters of each kind.
func (s *Sketch[K]) Counters() int { return perKey * s.keys }
