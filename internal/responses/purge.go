package responses

import "github.com/maypok86/otter/v2"

// Remove removes one response, if it is still stored.
func (s *Store) Remove(k Key, r *Stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(k.at(r.apart), func(v *Stored) bool { return v != r })
	if d := s.diskLocked(k); d != nil && r.Partial == nil { // the disk has no parts
		s.waitLocked(d.Remove(k.diskKey(), r.variantKey()))
	}
}

// Expire marks one response, if it is still stored. The disk loses it: there it could
// not be marked alone.
func (s *Store) Expire(k Key, r *Stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Marked.Store(true)
	if d := s.diskLocked(k); d != nil && r.Partial == nil {
		s.waitLocked(d.Remove(k.diskKey(), r.variantKey()))
	}
}

// Purge removes all responses of k and voids running writes to k. With soft, it
// marks the responses, and later those that the running writes store. It returns
// the number of responses removed or marked, here or only on the disk. Once it has
// returned, no Get returns a response whose fetch began before, or with soft, only a
// marked one.
func (s *Store) Purge(k Key, soft bool) int { return s.purge(k, soft, nil) }

// PurgeFor is Purge of w's key on behalf of the request whose response w may store:
// w itself stays valid, unless an earlier invalidation has voided it.
func (s *Store) PurgeFor(w *Write) int { return s.purge(w.key, false, w) }

// purge is Purge that leaves the write except, which may be nil, as it is.
func (s *Store) purge(k Key, soft bool, except *Write) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := s.writing[k]; w != nil; w = w.next {
		switch {
		case w == except:
		case soft:
			w.soft = true
		default:
			w.void.Store(true)
		}
	}
	s.pruneLocked(k)
	all := s.space.Load().at(k, 0)
	if !soft {
		s.keepAllLocked(k, func(*Stored) bool { return false })
	} else {
		for _, r := range all {
			r.Marked.Store(true)
		}
	}
	s.counts.purged += uint64(len(all))
	n := len(all)
	if d := s.diskLocked(k); d != nil {
		more, t := d.Purge(k.diskKey(), soft)
		s.waitLocked(t)
		n = max(n, more)
	}
	return n
}

// Supersede handles a change of k in the fleet, made under the given fence. If
// removed is set, responses fetched under a lower fence are removed, and running
// writes under a lower fence are voided; with a place, this is about the responses of
// that variant, and no write. Otherwise the responses are no longer the newest: those
// of the URL for place 0, or those of the variant at place. Both may be called late
// and more than once.
func (s *Store) Supersede(k Key, place, fence uint64, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if removed && place == 0 {
		for w := s.writing[k]; w != nil; w = w.next {
			if w.root < fence {
				w.void.Store(true)
			}
		}
		before := len(s.space.Load().at(k, 0))
		s.keepAllLocked(k, func(v *Stored) bool { return v.Root >= fence })
		s.counts.purged += uint64(before - len(s.space.Load().at(k, 0))) //nolint:gosec // only the holder of the lock adds
		if d := s.diskLocked(k); d != nil {
			// It does not compare fences; it loses newer ones as well.
			_, t := d.Purge(k.diskKey(), false)
			s.waitLocked(t)
		}
		return
	}
	if removed {
		s.dropLocked(k, place, func(v *Stored) bool { return v.Place == place && v.Fence.Load() < fence })
		return
	}
	for _, v := range s.space.Load().at(k, place) {
		if place == 0 && v.Root < fence || place != 0 && v.Place == place && v.Fence.Load() < fence {
			if at := v.Checked.Load(); at != Unproved {
				v.Checked.CompareAndSwap(at, -1)
			}
		}
	}
}

// dropLocked removes the responses of k at place for which drop returns true, on the disk
// as well if it may have them. s.mu must be held.
func (s *Store) dropLocked(k Key, place uint64, drop func(*Stored) bool) {
	d := s.diskLocked(k)
	for _, v := range s.space.Load().at(k, place) {
		if !drop(v) {
			continue
		}
		s.keepLocked(k.at(v.apart), func(w *Stored) bool { return w != v })
		s.counts.purged++
		if d != nil && v.Partial == nil { // the disk has no parts
			s.waitLocked(d.Remove(k.diskKey(), v.variantKey()))
		}
	}
}

// PurgeTags does the same for all responses that carry one of the tags, without
// reporting how many. Its cost does not depend on that number. The responses are
// removed when a write to their key finds them, or when they are evicted; until
// then they count as used.
func (s *Store) PurgeTags(soft bool, tags ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags.purge(soft, tags, len(s.writing) > 0)
	if s.disk != nil {
		s.waitLocked(s.disk.PurgeTags(soft, tags...))
	}
}

// PurgeReads is PurgeTags for a tag that only responses to reads with a body carry: the
// disk has none of them. It returns the number of responses removed or marked.
func (s *Store) PurgeReads(soft bool, tag string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.taggedLocked(tag)
	s.tags.purge(soft, []string{tag}, len(s.writing) > 0)
	return n
}

// Tagged returns how many stored responses carry a tag, without those that an
// invalidation of the tag has removed.
func (s *Store) Tagged(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taggedLocked(name)
}

func (s *Store) taggedLocked(name string) int {
	if g := s.tags.byName[name]; g != nil {
		return int(max(0, g.live.Load()))
	}
	return 0
}

// ExpireAll marks all responses, and those that running writes will store.
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
	if s.disk != nil {
		s.waitLocked(s.disk.PurgeAll(true))
	}
}

// Clear removes all responses and voids all running writes.
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
	if s.disk != nil {
		s.waitLocked(s.disk.PurgeAll(false))
	}
}

// pruneLocked removes the responses of k that tags have outdated. s.mu must be
// held.
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

// keepLocked removes the responses of k for which keep returns false. s.mu must
// be held.
func (s *Store) keepLocked(k Key, keep func(*Stored) bool) {
	sp := s.space.Load()
	sp.cache.Compute(k, func(had *list, found bool) (*list, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		has := &list{family: had.family}
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
		has.union = union(has.all)
		sp.turn(had, has)
		return has, otter.WriteOp
	})
}
