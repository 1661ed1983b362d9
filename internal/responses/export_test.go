package responses

import (
	"iter"
	"testing"
)

// Keys returns the stored keys.
func (s *Store) Keys() iter.Seq[Key] { return s.space.Load().cache.Keys() }

// Check fails the test unless all counters match the contents. Nothing else may
// use s during the call.
func (s *Store) Check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.space.Load()
	sp.cache.CleanUp()
	var used, claimed int64
	n := 0
	tags := map[*tag]int64{}
	for k, l := range sp.cache.All() {
		var size int64
		for _, r := range l.all {
			size += r.size
			n++
			for _, g := range r.tags {
				tags[g]++
			}
		}
		if size != l.size || len(l.all) == 0 || l.claim != s.weight(size) {
			t.Errorf("%v has %d responses of %d bytes, counted as %d, with weight %d", k, len(l.all), size, l.size, l.claim)
		}
		used += size
		claimed += int64(l.claim)
	}
	if sp.used.Load() != used || sp.responses.Load() != int64(n) {
		t.Errorf("used, responses = %d, %d; want %d, %d", sp.used.Load(), sp.responses.Load(), used, n)
	}
	if w := sp.cache.WeightedSize(); w != uint64(claimed) || w > s.maximum() {
		t.Errorf("the cache weighs %d; want %d, at most %d", w, claimed, s.maximum())
	}
	members := 0
	for k, f := range sp.families.byKey.Range {
		if len(f.(*family).members) == 0 || f.(*family).dead.Load() {
			t.Errorf("a family of %v without members is left", k)
		}
		for h := range f.(*family).members {
			members++
			if len(sp.peek(k.(Key).at(h)).all) == 0 {
				t.Errorf("a member of the family of %v has no response", k)
			}
		}
		if l := sp.peek(k.(Key)); l != nothing && l.family != f {
			t.Errorf("the list of %v does not know its family", k)
		}
	}
	for k := range sp.cache.Keys() {
		if k.apart != (half{}) {
			members--
		}
	}
	if members != 0 {
		t.Errorf("families have %d members too many", members)
	}
	if s.reserved > s.margin || s.margin > s.reserved+3*s.step() {
		t.Errorf("margin = %d for %d reserved, step %d", s.margin, s.reserved, s.step())
	}
	for g, want := range tags {
		if g.used.Load() != want || s.tags.byName[g.name] != g {
			t.Errorf("tag %q is used %d times; want %d, and a known tag", g.name, g.used.Load(), want)
		}
	}
	for name, g := range s.tags.byName {
		if g.used.Load() != tags[g] {
			t.Errorf("tag %q is used %d times; want %d", name, g.used.Load(), tags[g])
		}
	}
	for k, w := range s.writing {
		t.Errorf("a write to %v is running: %p", k, w)
	}
}

// Tags returns the number of known tags.
func (s *Store) Tags() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tags.byName)
}

// HeadOf returns what the disk has of r besides its body.
func HeadOf(r *Stored, k Key) []byte {
	rec, ok := r.record(k)
	if !ok {
		return nil
	}
	return rec.Head
}

// Families returns how many URLs have responses that are kept apart.
func (s *Store) Families() int { return int(s.space.Load().families.n.Load()) }
