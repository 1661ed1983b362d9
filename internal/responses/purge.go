package responses

import "github.com/maypok86/otter/v2"

// Remove takes one response out, if it is stored still.
func (s *Store) Remove(k Key, r *Stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(k, func(v *Stored) bool { return v != r })
}

// Purge removes all responses of k, or marks them with soft, makes running
// writes to k void, or what they bring marked, and returns how many there were.
// Once it has returned, no Get returns a response whose fetch began before, or
// none that is not marked.
func (s *Store) Purge(k Key, soft bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := s.writing[k]; w != nil; w = w.next {
		if soft {
			w.soft = true
		} else {
			w.void.Store(true)
		}
	}
	s.pruneLocked(k)
	all := s.space.Load().peek(k).all
	if !soft {
		s.keepLocked(k, func(*Stored) bool { return false })
	} else {
		for _, r := range all {
			r.Marked.Store(true)
		}
	}
	s.counts.purged += uint64(len(all))
	return len(all)
}

// Supersede handles a change of k in the fleet, by its fence. If removed, what
// was fetched under a lower one goes, and running writes under a lower one are
// void. Else it is not the newest any more: at place 0 of the URL, or at one of
// its variants' places. Both may be called late, and twice.
func (s *Store) Supersede(k Key, place, fence uint64, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if removed && place == 0 {
		for w := s.writing[k]; w != nil; w = w.next {
			if w.root < fence {
				w.void.Store(true)
			}
		}
		before := len(s.space.Load().peek(k).all)
		s.keepLocked(k, func(v *Stored) bool { return v.Root >= fence })
		s.counts.purged += uint64(before - len(s.space.Load().peek(k).all)) //nolint:gosec // only this lock's holder adds
		return
	}
	for _, v := range s.space.Load().peek(k).all {
		if place == 0 && v.Root < fence || place != 0 && v.Place == place && v.Fence.Load() < fence {
			v.Checked.Store(-1)
		}
	}
}

// PurgeTags does so for all responses that carry one of the tags, at a cost
// that does not depend on how many these are, and reports no number for it. They
// are taken out when they are met by a write to their key, or evicted, and count
// as used until then.
func (s *Store) PurgeTags(soft bool, tags ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags.purge(soft, tags, len(s.writing) > 0)
}

// ExpireAll marks everything, and what running writes bring.
func (s *Store) ExpireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writing {
		for ; w != nil; w = w.next {
			w.soft = true
		}
	}
	for _, l := range s.space.Load().cache.All() {
		for _, r := range l.all {
			r.Marked.Store(true)
		}
		s.counts.purged += uint64(len(l.all))
	}
}

// Clear removes everything and makes all running writes void.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writing {
		for ; w != nil; w = w.next {
			w.void.Store(true)
		}
	}
	old := s.space.Load()
	s.space.Store(s.newSpace())
	s.counts.purged += uint64(old.responses.Load())
	s.counts.evicted += old.evicted.Load()
	s.tags.init()
}

// pruneLocked takes out what tags have outdated of k. s.mu must be held.
func (s *Store) pruneLocked(k Key) {
	outdated := 0
	for _, v := range s.space.Load().peek(k).all {
		if v.outdated() {
			outdated++
		}
	}
	if outdated > 0 {
		s.counts.purged += uint64(outdated)
		s.keepLocked(k, func(v *Stored) bool { return !v.outdated() })
	}
}

// keepLocked takes out of k all that keep does not want. s.mu must be held.
func (s *Store) keepLocked(k Key, keep func(*Stored) bool) {
	sp := s.space.Load()
	sp.cache.Compute(k, func(had *list, found bool) (*list, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		has := &list{}
		for _, v := range had.all {
			if keep(v) {
				has.all = append(has.all, v)
				has.size += v.size
			}
		}
		switch len(has.all) {
		case len(had.all):
			return nil, otter.CancelOp
		case 0:
			return nil, otter.InvalidateOp
		}
		has.claim = s.weight(has.size)
		sp.turn(had, has)
		return has, otter.WriteOp
	})
}
