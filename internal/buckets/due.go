package buckets

import "time"

// The heap of a shard finds a full bucket. A bucket that loses a token becomes
// full later than before, never sooner, so the heap may lag behind: due is a lower
// bound, and is updated when the bucket reaches the top. Requests of known clients do
// not touch the heap.

// maxStale is the maximum number of buckets that one new key updates, so that its
// time is bounded.
const maxStale = 8

// fullLocked returns the place of a bucket that is full, or 0 if none was found.
// s.mu must be held.
func (s *shard) fullLocked(now time.Duration) int32 {
	for range maxStale {
		if len(s.due) == 0 {
			return 0
		}
		i := s.due[0]
		b := &s.buckets[i]
		if b.due > now {
			return 0
		}
		due := s.meter.fullAt(b.debt, b.seen)
		if due <= now {
			return i
		}
		b.due = due
		s.sinkLocked(0)
	}
	return 0
}

// pushLocked puts i into the heap. s.mu must be held.
func (s *shard) pushLocked(i int32) {
	s.due = append(s.due, i)
	s.riseLocked(len(s.due) - 1)
}

// removeLocked takes i out of the heap. s.mu must be held.
func (s *shard) removeLocked(i int32) {
	at, last := int(s.buckets[i].pos), len(s.due)-1
	moved := s.due[last]
	s.due = s.due[:last]
	if at < last {
		s.setLocked(at, moved)
		s.riseLocked(at)
		s.sinkLocked(int(s.buckets[moved].pos))
	}
}

// riseLocked moves the bucket at pos towards the top, to its place. s.mu must be
// held.
func (s *shard) riseLocked(pos int) {
	i := s.due[pos]
	for pos > 0 {
		up := (pos - 1) / 2
		if s.buckets[s.due[up]].due <= s.buckets[i].due {
			break
		}
		s.setLocked(pos, s.due[up])
		pos = up
	}
	s.setLocked(pos, i)
}

// sinkLocked moves the bucket at pos away from the top, to its place. s.mu must be
// held.
func (s *shard) sinkLocked(pos int) {
	i := s.due[pos]
	for {
		down := 2*pos + 1
		if down >= len(s.due) {
			break
		}
		if right := down + 1; right < len(s.due) && s.buckets[s.due[right]].due < s.buckets[s.due[down]].due {
			down = right
		}
		if s.buckets[i].due <= s.buckets[s.due[down]].due {
			break
		}
		s.setLocked(pos, s.due[down])
		pos = down
	}
	s.setLocked(pos, i)
}

// setLocked puts bucket i at pos of the heap. s.mu must be held.
func (s *shard) setLocked(pos int, i int32) {
	s.due[pos] = i
	s.buckets[i].pos = int32(pos)
}
