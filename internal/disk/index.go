package disk

import "encoding/binary"

// A slot is a place in the index, and the segment that it is in. Its size is 64 bytes.
type slot struct {
	place
	segment uint32
	next    int32 // the next slot with the same hash, or of the free ones; none is last
}

const none = -1

// An index finds records by the id of their key, the newest first. Its slots have no
// pointers, so the garbage collector does not visit them.
type index struct {
	first map[uint64]int32 // by the first half of the id
	slots []slot
	free  int32
	count int
}

func newIndex() index { return index{first: map[uint64]int32{}, free: none} }

func hashOf(k id) uint64 { return binary.LittleEndian.Uint64(k[:8]) }

// add adds a record, and returns its slot.
func (x *index) add(p place, segment uint32) int32 {
	at := x.free
	if at != none {
		x.free = x.slots[at].next
	} else {
		at = int32(len(x.slots)) //nolint:gosec // bounded by Options.Objects
		x.slots = append(x.slots, slot{})
	}
	next, ok := x.first[hashOf(p.id)]
	if !ok {
		next = none
	}
	x.slots[at] = slot{place: p, segment: segment, next: next}
	x.first[hashOf(p.id)] = at
	x.count++
	return at
}

// each calls f for the records of k, the newest first, until it returns false.
func (x *index) each(k id, f func(s *slot) bool) {
	at, ok := x.first[hashOf(k)]
	for ok && at != none {
		s := &x.slots[at]
		if s.id == k && !f(s) {
			return
		}
		at = s.next
	}
}

// has reports whether there is a record of k.
func (x *index) has(k id) (found bool) {
	x.each(k, func(*slot) bool { found = true; return false })
	return found
}

// remove removes the records of k for which drop returns true, and returns their
// number. It calls gone for each.
func (x *index) remove(k id, drop func(s *slot) bool, gone func(s *slot)) (n int) {
	h := hashOf(k)
	at, ok := x.first[h]
	last := int32(none)
	for ok && at != none {
		s := &x.slots[at]
		next := s.next
		if s.id != k || !drop(s) {
			last, at = at, next
			continue
		}
		switch {
		case last != none:
			x.slots[last].next = next
		case next != none:
			x.first[h] = next
		default:
			delete(x.first, h)
		}
		gone(s)
		*s = slot{next: x.free}
		x.free, at = at, next
		x.count--
		n++
	}
	return n
}
