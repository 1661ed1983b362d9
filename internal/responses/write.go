package responses

import (
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A Write is the right to store the response of a fetch that has begun. An
// invalidation during the fetch voids it (E6). A soft invalidation does not: the
// fetched response is stored, but marked, because it may be as old as the
// previous one.
type Write struct {
	s    *Store
	key  Key
	root uint64      // of BeginUnder
	void atomic.Bool // set with s.mu held, read without

	promotes bool // it stores a response from the disk
	refused  bool // an invalidation by tag prevented that

	// Guarded by s.mu.
	seq        uint64 // the number of invalidations by tag when the write began
	soft       bool   // the key was soft-purged since
	ended      bool
	prev, next *Write // other writes to the key
}

// Begin must be called before the fetch for k begins. Put, Replace or Drop ends a
// Write, once.
func (s *Store) Begin(k Key) *Write { return s.BeginUnder(k, 0) }

// BeginUnder is Begin for a fetch under a fence of the fleet: a Supersede with
// that fence or a lower one does not void the Write.
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

// leaveLocked ends w, and reports whether it was still running. s.mu must be
// held.
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

// Void reports whether an invalidation of the key has voided the write.
func (w *Write) Void() bool { return w.void.Load() }

// Drop ends w without storing anything. After Put it does nothing.
func (w *Write) Drop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.leaveLocked()
}

// Put stores r, replaces the responses that r stands for, and reports whether it
// did. It does not if an invalidation of the key or of one of the tags, or a
// Clear, came in between; if r is too large; or if the store is full of responses
// that are used more. r.Tags and all exported fields must be set, and r belongs
// to the store from then on.
func (w *Write) Put(r *Stored) bool { return w.finish(nil, r) }

// Replace stores r instead of old, if old is still stored: for a response
// freshened by a 304. If old was replaced, removed or evicted, it stores nothing.
// Otherwise it is like Put.
func (w *Write) Replace(old, r *Stored) bool {
	if old == nil {
		w.Drop()
		return false
	}
	return w.finish(old, r)
}

// finish ends w by storing r, which replaces old if that is not nil.
func (w *Write) finish(old, r *Stored) bool {
	s := w.s
	unfit := !r.completes(s.space.Load(), w.key)
	counts := false
	if r.Asked != nil {
		_, counts = rfc9111.AppendCounted(nil, r.Vary, r.Asked)
	}
	r.Asked = nil
	big := int64(cap(r.Body)) > s.half
	if !big && !w.Void() {
		r.own(w.key)
		if counts {
			r.size += memberSize
		}
		big = r.size > s.half
	}
	var rec disk.Record
	var forDisk bool
	if s.hasDisk.Load() && w.key.onDisk() && r.Partial == nil && !w.promotes && !big && !w.Void() {
		rec, forDisk = r.record(w.key)
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
	case unfit:
		s.counts.refused++
		return false
	}
	if !s.tags.take(r, w.seq) {
		s.counts.overtaken++
		w.refused = true
		return false
	}
	if w.soft {
		r.Marked.Store(true)
	}
	stored := s.placeLocked(w.key, old, r, counts)
	if rec.Key != "" && (stored || old == nil) { // the disk can have room when memory has none
		rec.Soft = r.Marked.Load()
		s.toDiskLocked(rec, forDisk)
	}
	if !stored {
		r.release()
	} else if !w.promotes {
		s.counts.stored++
	}
	return stored
}

// placeLocked stores r under k, or apart from the others of k if something counts in its
// request. s.mu must be held.
func (s *Store) placeLocked(k Key, old, r *Stored, counts bool) bool {
	sp := s.space.Load()
	f := sp.family(k)
	if counts {
		if f = sp.join(k); f.takes(r.Vary) {
			r.apart = halfOf(r.Vary, []byte(r.Selected))
		}
	}
	if f != nil {
		f.know(r.Vary)
	}
	defer sp.settle(k)
	if old != nil && old.apart != r.apart {
		if old.outdated() || !slices.Contains(sp.peek(k.at(old.apart)).all, old) {
			s.counts.refused++
			return false
		}
		s.keepLocked(k.at(old.apart), func(v *Stored) bool { return v != old })
		old = nil
	}
	s.order++
	r.order = s.order
	stored := s.putLocked(k.at(r.apart), f, old, r)
	if stored && len(r.Vary) == 0 {
		for _, h := range f.halves(0) {
			s.keepLocked(k.at(h), func(v *Stored) bool { return !r.standsFor(v) })
		}
	}
	return stored
}

// maintained is the number of stored responses after which the one that stores waits for
// the cache's maintenance. Otherwise maintenance has a goroutine, and on a busy machine it
// comes late: the reads in between are dropped, and what is used looks unused.
const maintained = 4

// putLocked stores r under k; f is the family of its URL, or nil. s.mu must be held. The
// steps are:
//
//  1. If there is room, r is stored at once.
//  2. Otherwise the key keeps its list, but claims the weight that it would have
//     with r. The cache makes room for that, or evicts the key itself: it knows
//     which keys are used more. Nothing is counted or kept yet that the bound does
//     not cover.
//  3. Once there is room, r is stored in the claimed space.
func (s *Store) putLocked(k Key, f *family, old, r *Stored) bool {
	sp := s.space.Load()
	stored, claimed := false, false
	put := func(had *list, found bool) (*list, otter.ComputeOp) {
		if !found {
			if claimed {
				return nil, otter.CancelOp // the key was evicted
			}
			had = nothing
		}
		has := s.merge(had, old, r)
		switch {
		case has == nil:
			return s.unclaimed(had)
		case s.fitsLocked(sp, has.size-had.size):
			stored = true
			if k.apart != (half{}) {
				f = sp.enter(k.at(half{}), f, r)
			}
			sp.turn(had, has)
			return has, otter.WriteOp
		case claimed:
			return s.unclaimed(had)
		}
		claimed = true
		return had.claiming(has.claim), otter.WriteOp
	}
	sp.cache.Compute(k, put)
	if claimed {
		sp.cache.CleanUp()
		sp.cache.Compute(k, put)
	} else if s.order%maintained == 0 {
		sp.cache.CleanUp()
	}
	if !stored {
		s.counts.refused++
	}
	return stored
}

// unclaimed keeps the key's list, and drops any claim beyond its size.
func (s *Store) unclaimed(had *list) (*list, otter.ComputeOp) {
	claim := s.weight(had.size)
	switch {
	case had.claim == claim:
		return nil, otter.CancelOp
	case len(had.all) == 0:
		return nil, otter.InvalidateOp
	}
	return had.claiming(claim), otter.WriteOp
}

// claiming returns l with another weight.
func (l *list) claiming(claim uint32) *list {
	own := *l
	own.claim = claim
	return &own
}

// merge returns the list that results from adding r to had. r replaces old if old
// is not nil; if old is no longer there, the result is nil, as it is for parts of a response that
// is there as a whole: another call has stored it since these were looked up. The variant used least is
// dropped when there are too many, or too many bytes for one key. s.mu must be held.
func (s *Store) merge(had *list, old, r *Stored) *list {
	if old != nil && (old.outdated() || !slices.Contains(had.all, old)) {
		return nil
	}
	if r.Partial != nil && slices.ContainsFunc(had.all, func(v *Stored) bool { return v.Partial == nil && !v.outdated() && v.covers(r) }) {
		return nil
	}
	most := s.variants
	if r.Room > 0 {
		most = int(r.Room)
	}
	has := &list{all: append(make([]*Stored, 0, len(had.all)+1), r), size: r.size, family: had.family}
	for _, v := range had.all {
		if v == old || v.outdated() || r.standsFor(v) {
			r.score = max(r.score, v.score) // it goes on for the same requests
			continue
		}
		has.all = append(has.all, v)
		has.size += v.size
	}
	for len(has.all) > most || has.size > s.half {
		i := has.leastUsed()
		has.size -= has.all[i].size
		has.all = slices.Delete(has.all, i, i+1)
	}
	has.claim = s.weight(has.size)
	has.union = union(has.all)
	return has
}
