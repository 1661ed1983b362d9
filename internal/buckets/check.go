package buckets

import (
	"fmt"
	"math"
)

// Check returns the first fault in the structure of t, for tests.
func (t *Table) Check() error {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		err := s.checkLocked()
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("buckets: shard %d: %w", i, err)
		}
	}
	return nil
}

// Places returns how many buckets t has memory for.
func (t *Table) Places() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.buckets) - 1
		s.mu.Unlock()
	}
	return n
}

// checkLocked is Check. s.mu must be held.
func (s *shard) checkLocked() error {
	if err := s.checkRingLocked(); err != nil {
		return err
	}
	if err := s.checkHeapLocked(); err != nil {
		return err
	}
	for i := range s.buckets {
		if err := s.checkBillsLocked(int32(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkRingLocked checks the ring and the list of free buckets. s.mu must be held.
func (s *shard) checkRingLocked() error {
	ring := 0
	last := s.buckets[s.buckets[0].next].seen
	for i := s.buckets[0].next; i != 0; i = s.buckets[i].next {
		b := &s.buckets[i]
		switch {
		case s.index[b.key] != i:
			return fmt.Errorf("bucket %d is at %d in the index", i, s.index[b.key])
		case s.buckets[b.next].prev != i || s.buckets[b.prev].next != i:
			return fmt.Errorf("bucket %d is not linked both ways", i)
		case b.seen > last:
			return fmt.Errorf("bucket %d was seen at %v, later than the one before it", i, b.seen)
		}
		last = b.seen
		if ring++; ring > len(s.buckets) {
			return fmt.Errorf("the ring does not close")
		}
	}
	free := 0
	for i := s.free; i != 0; i = s.buckets[i].next {
		if free++; free > len(s.buckets) {
			return fmt.Errorf("the free list does not end")
		}
	}
	if ring != len(s.index) || ring+free+1 != len(s.buckets) {
		return fmt.Errorf("%d in the ring, %d in the index, %d free, of %d", ring, len(s.index), free, len(s.buckets))
	}
	return nil
}

// checkHeapLocked checks the heap. s.mu must be held.
func (s *shard) checkHeapLocked() error {
	if len(s.due) != len(s.index) {
		return fmt.Errorf("%d in the heap, %d in the index", len(s.due), len(s.index))
	}
	for pos, i := range s.due {
		b := &s.buckets[i]
		switch {
		case int(b.pos) != pos || s.index[b.key] != i:
			return fmt.Errorf("bucket %d is at %d in the heap, but its pos is %d", i, pos, b.pos)
		case pos > 0 && b.due < s.buckets[s.due[(pos-1)/2]].due:
			return fmt.Errorf("bucket %d is due before the one above it", i)
		case len(s.open[i]) == 0 && s.meter.fullAt(b.debt, b.seen) < b.due:
			return fmt.Errorf("bucket %d is full before it is due", i)
		}
	}
	return nil
}

// checkBillsLocked checks the debt and the open bills of bucket i. s.mu must be held.
func (s *shard) checkBillsLocked(i int32) error {
	b, open := &s.buckets[i], s.open[i]
	if len(open) > 0 && (s.index[b.key] != i || b.due != math.MaxInt64) {
		return fmt.Errorf("bucket %d has open bills, and can be forgotten at %v", i, b.due)
	}
	if b.debt > s.meter.most {
		return fmt.Errorf("bucket %d has a debt of %d; want at most %d", i, b.debt, s.meter.most)
	}
	last := int64(0)
	for _, p := range open {
		left := s.meter.debtAt(p.ahead, b.seen-p.at)
		if p.over || p.lost || left < last || left > b.debt {
			return fmt.Errorf("bucket %d with a debt of %d: bill %+v, after one at %d", i, b.debt, p, last)
		}
		last = left
	}
	return nil
}
