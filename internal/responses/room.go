package responses

import (
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/opaque"
)

// A list holds the variants of one key, newest first. It is not modified once it
// is in the cache.
type list struct {
	all    []*Stored
	union  []string // the fields by which one of all varies and another does not, see fits
	size   int64    // the sum of the variants' sizes
	family *family  // of the responses that are stored apart; nil: none, if the list is in the cache
	claim  uint32   // its weight in the cache, in units; putLocked explains when that exceeds size
}

// nothing is the list of a key that is not in the cache.
var nothing = &list{}

// A space is the cache between two calls of Clear, with its counters. The
// counters are atomic because evictions lower them at any time. They rise only
// with Store.mu held.
type space struct {
	cache     opaque.Cache[Key, *list]
	families  families
	used      atomic.Int64
	responses atomic.Int64
	evicted   atomic.Uint64
}

// newSpace returns an empty space.
func (s *Store) newSpace() *space {
	sp := &space{}
	sp.cache = otter.Must(&otter.Options[Key, *list]{
		MaximumWeight:    s.maximum(),
		Weigher:          func(_ Key, l *list) uint32 { return l.claim },
		OnAtomicDeletion: sp.gone,
	})
	return sp
}

// gone is called for each list that leaves the cache, as part of its removal.
// When a list is replaced, the replacing code counts the difference.
func (sp *space) gone(e otter.DeletionEvent[Key, *list]) {
	if e.Cause == otter.CauseReplacement {
		return
	}
	sp.count(e.Value, nothing)
	if e.WasEvicted() {
		sp.evicted.Add(uint64(len(e.Value.all)))
	}
	for _, r := range e.Value.all {
		r.release()
	}
	if e.Key.apart != (half{}) {
		sp.leave(e.Key)
	}
}

// turn updates the counters and tags when a key's list changes from had to has.
func (sp *space) turn(had, has *list) {
	sp.count(had, has)
	for _, v := range had.all {
		if !slices.Contains(has.all, v) {
			v.release()
		}
	}
}

// count updates the counters when a key's list changes from had to has.
func (sp *space) count(had, has *list) {
	sp.used.Add(has.size - had.size)
	sp.responses.Add(int64(len(has.all) - len(had.all)))
}

// peek returns the list of k without counting that as a use.
func (sp *space) peek(k Key) *list {
	if e, ok := sp.cache.GetEntryQuietly(k); ok {
		return e.Value
	}
	return nothing
}

// steps is the number of steps, each an equal part of the bound, in which the
// margin moves.
const steps = 64

// step is the smallest margin. A burst of small responses can take that much
// before a Put has to wait for evictions.
func (s *Store) step() int64 { return max(s.bytes/steps, 1) }

// maximum is the bound of the underlying cache, in its units: everything except
// the margin. s.mu must be held, except in New.
func (s *Store) maximum() uint64 { return uint64(max((s.bytes-s.margin)/s.unit, 1)) }

// weight returns the weight of size bytes, rounded up.
func (s *Store) weight(size int64) uint32 { return uint32((size + s.unit - 1) / s.unit) }

// fitsLocked reports whether n more bytes can be stored or reserved. s.mu must be
// held. While it is, a true result stays true, because other goroutines only make
// room.
func (s *Store) fitsLocked(sp *space, n int64) bool {
	return sp.used.Load()+s.reserved+n <= s.bytes
}

// Reserve takes n bytes of the bound for buffers in flight and evicts stored
// responses if necessary; a negative n gives bytes back. It returns false, and
// takes nothing, if the buffers would exceed half of the bound or if no room
// could be made.
func (s *Store) Reserve(n int64) bool { return s.reserve(n, s.half) }

// ReserveSpare is Reserve for bytes that a flight does not depend on. It leaves a
// quarter of the memory for buffers to the others.
func (s *Store) ReserveSpare(n int64) bool { return s.reserve(n, s.half/4*3) }

// reserve is Reserve with a bound for all buffers.
func (s *Store) reserve(n, most int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= 0 {
		if s.reserved+n < 0 {
			panic("responses: more bytes given back than were reserved")
		}
		s.reserved += n
		s.adjustLocked()
		return true
	}
	if n > most-s.reserved {
		return false
	}
	s.reserved += n
	s.adjustLocked()
	sp := s.space.Load()
	if !s.fitsLocked(sp, 0) {
		sp.cache.CleanUp()
	}
	if s.fitsLocked(sp, 0) {
		return true
	}
	s.reserved -= n
	return false
}

// adjustLocked makes the margin cover the reserved bytes, with up to two extra
// steps. The margin moves in steps, and shrinks only if it is more than three
// steps too large: after each move, the underlying cache has to learn again how
// much of itself to give to recent entries. s.mu must be held.
func (s *Store) adjustLocked() {
	step := s.step()
	if s.reserved <= s.margin && s.margin <= s.reserved+3*step {
		return
	}
	s.margin = (s.reserved/step + 1) * step
	s.space.Load().cache.SetMaximum(s.maximum())
}
