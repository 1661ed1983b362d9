package responses

import (
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
)

// A Write is the right to store the response of a fetch that has begun. An
// invalidation in between makes it void (E6). A soft one does not: what the
// fetch brings is stored, and marked, since it may be as old as what was there.
type Write struct {
	s    *Store
	key  Key
	root uint64      // of BeginUnder
	void atomic.Bool // set with s.mu held, read without

	// Guarded by s.mu.
	seq        uint64 // how many invalidations by tag there were when it began
	soft       bool   // a soft purge of the key came in between
	ended      bool
	prev, next *Write // other writes to the key
}

// Begin is called before the fetch for k begins. Each Write is ended by Put,
// Replace or Drop, once.
func (s *Store) Begin(k Key) *Write { return s.BeginUnder(k, 0) }

// BeginUnder is Begin for a fetch under a fence of the fleet: what was
// superseded before it was granted does not make the Write void.
func (s *Store) BeginUnder(k Key, root uint64) *Write {
	w := &Write{s: s, key: k.own(), root: root}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pruneLocked(k)
	w.seq = s.tags.seq
	if w.next = s.writing[k]; w.next != nil {
		w.next.prev = w
	}
	s.writing[w.key] = w
	return w
}

// leaveLocked ends w, and reports whether it was running. s.mu must be held.
func (w *Write) leaveLocked() bool {
	if w.ended {
		return false
	}
	w.ended = true
	if w.next != nil {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		w.s.writing[w.key] = w.next
	default:
		delete(w.s.writing, w.key)
	}
	w.prev, w.next = nil, nil
	return true
}

// Void reports whether an invalidation of the key has overtaken the write.
func (w *Write) Void() bool { return w.void.Load() }

// Drop ends w with nothing to store. After Put it does nothing.
func (w *Write) Drop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.leaveLocked()
}

// Put stores r, replaces what it stands for, and reports whether it did: not if
// it was overtaken by an invalidation of its key or of one of its tags, by
// Clear, if it is too big, or if the store is full of what is used more. r.Tags
// and all exported fields must be set, and r is the store's from then on.
func (w *Write) Put(r *Stored) bool { return w.finish(nil, r) }

// Replace puts r in the place of old, if that is stored still: for a response
// that a 304 has freshened. If old has been replaced, removed or evicted, it
// stores nothing. It is Put otherwise.
func (w *Write) Replace(old, r *Stored) bool {
	if old == nil {
		w.Drop()
		return false
	}
	return w.finish(old, r)
}

// finish ends w with r, in the place of old if that is not nil.
func (w *Write) finish(old, r *Stored) bool {
	s := w.s
	big := int64(cap(r.Body)) > s.half
	if !big && !w.Void() {
		r.own(w.key)
		big = r.size > s.half
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.leaveLocked() {
		return false
	}
	switch {
	case w.Void():
		s.counts.overtaken++
		return false
	case big:
		s.counts.tooBig++
		return false
	}
	if !s.tags.take(r, w.seq) {
		s.counts.overtaken++
		return false
	}
	if w.soft {
		r.Marked.Store(true)
	}
	if s.putLocked(w.key, old, r) {
		s.counts.stored++
		return true
	}
	release(r.tags)
	return false
}

// putLocked stores r under k. s.mu must be held. It goes
//
//  1. straight, where there is room;
//  2. else what the key has stays, but claims the weight that it would have with
//     r, for which the cache makes room, or gives up the key itself: it knows
//     which of them are used more. Nothing is counted or kept that is not
//     covered by then;
//  3. and once there is room, r goes where the claim is.
func (s *Store) putLocked(k Key, old, r *Stored) bool {
	sp := s.space.Load()
	stored, claimed := false, false
	put := func(had *list, found bool) (*list, otter.ComputeOp) {
		if !found {
			if claimed {
				return nil, otter.CancelOp // the key was given up
			}
			had = nothing
		}
		has := s.merge(had, old, r)
		switch {
		case has == nil:
			return s.unclaimed(had)
		case s.fitsLocked(sp, has.size-had.size):
			stored = true
			sp.turn(had, has)
			return has, otter.WriteOp
		case claimed:
			return s.unclaimed(had)
		}
		claimed = true
		return &list{all: had.all, size: had.size, claim: has.claim}, otter.WriteOp
	}
	sp.cache.Compute(k, put)
	if claimed {
		sp.cache.CleanUp()
		sp.cache.Compute(k, put)
	}
	if !stored {
		s.counts.refused++
	}
	return stored
}

// unclaimed leaves a key what it has, without a claim to more.
func (s *Store) unclaimed(had *list) (*list, otter.ComputeOp) {
	claim := s.weight(had.size)
	switch {
	case had.claim == claim:
		return nil, otter.CancelOp
	case len(had.all) == 0:
		return nil, otter.InvalidateOp
	}
	return &list{all: had.all, size: had.size, claim: claim}, otter.WriteOp
}

// merge returns the list of a key that has had and gets r, in the place of old
// if that is not nil; nil if old is not there any more. The variant that was
// stored first is evicted when there are too many, or too much for one key.
func (s *Store) merge(had *list, old, r *Stored) *list {
	if old != nil && (old.outdated() || !slices.Contains(had.all, old)) {
		return nil
	}
	has := &list{all: append(make([]*Stored, 0, len(had.all)+1), r), size: r.size}
	for _, v := range had.all {
		if v == old || v.outdated() || r.standsFor(v) {
			continue
		}
		if len(has.all) == s.variants || has.size+v.size > s.half {
			break
		}
		has.all = append(has.all, v)
		has.size += v.size
	}
	has.claim = s.weight(has.size)
	return has
}
