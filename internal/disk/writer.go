package disk

import (
	"time"
)

// batchBytes is about how much is written at once. A larger record is written
// alone.
const batchBytes = 1 << 20

// write is the goroutine that writes the queue. It ends once Close has been called
// and the queue is empty, or the context of Close has ended.
func (s *Store) write() {
	var buf []byte
	for {
		s.mu.Lock()
		batch, closed := s.takeLocked(), s.closed
		s.mu.Unlock()
		if len(batch) > 0 {
			s.writing.Lock()
			buf = s.writeBatch(buf, batch)
			s.writing.Unlock()
			continue
		}
		if closed {
			return
		}
		select {
		case <-s.wake:
		case <-s.give:
			return
		}
	}
}

// takeLocked takes the next batch from the queue. s.mu must be held.
func (s *Store) takeLocked() []*item {
	select {
	case <-s.give:
		return nil
	default:
	}
	n, size := 0, int64(0)
	for n < len(s.queue) && n < s.o.segmentObjects() && (n == 0 || size+s.queue[n].size() <= batchBytes) {
		size += s.queue[n].size()
		n++
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil
	}
	return batch
}

// writeBatch writes the items that are still wanted, and adds them to the index. It
// uses and returns buf.
func (s *Store) writeBatch(buf []byte, batch []*item) []byte {
	s.mu.Lock()
	var live []*item
	var size int64
	for _, i := range batch {
		if !i.dead {
			live = append(live, i)
			size += i.size()
		}
	}
	paused := s.lost != nil || time.Now().Before(s.paused)
	s.mu.Unlock()
	if len(live) == 0 || paused {
		s.settle(batch, nil, false)
		return buf
	}
	g, err := s.segmentFor(size, len(live))
	if err != nil {
		s.failed("create a segment", err)
		s.settle(batch, nil, false)
		return buf
	}
	defer g.release()
	if buf, err = s.store(buf, g, live); err != nil {
		s.failed("write", err)
		if g.file.Truncate(g.size) != nil {
			s.retire(g) // its end is unknown
			s.disown(live)
		}
		s.settle(batch, nil, false)
		return buf
	}
	s.settle(batch, g, true)
	return buf
}

// disown records that items that may be in a file are not there: a purge does not find
// them, and the next start would.
func (s *Store) disown(items []*item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range items {
		if !i.dead {
			s.recordLocked(i.p.removal())
		}
	}
}

// store appends the items to g.
func (s *Store) store(buf []byte, g *segment, items []*item) ([]byte, error) {
	buf, at, end := buf[:0], g.size, g.size
	for _, i := range items {
		s.mu.Lock()
		i.p.offset = uint32(end) //nolint:gosec // segments are smaller
		p := i.p
		s.mu.Unlock()
		buf = i.r.appendMeta(buf, g.mark, &p)
		end += p.size()
		if len(i.r.Body) <= batchBytes {
			buf = append(buf, i.r.Body...)
			continue
		}
		if _, err := g.file.WriteAt(buf, at); err != nil {
			return buf, err
		}
		if _, err := g.file.WriteAt(i.r.Body, at+int64(len(buf))); err != nil {
			return buf, err
		}
		buf, at = buf[:0], end
	}
	if len(buf) == 0 {
		return buf, nil
	}
	_, err := g.file.WriteAt(buf, at)
	return buf, err
}

// settle takes the batch out of the list of pending records. With written, the live
// ones are in g now.
func (s *Store) settle(batch []*item, g *segment, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written && s.files[g.number] != g {
		written = false // the segment was removed while it was written
	}
	for _, i := range batch {
		s.queued -= i.size()
		s.forgetLocked(i)
		// One that was removed while it was written is in the file, too. A removal
		// in the log, or the record that replaced it, has a higher number.
		inFile := i.p.offset > 0 && written
		if inFile {
			g.addLocked(s, i)
		}
		if s.lost == nil && !inFile {
			s.withoutLocked(i)
		}
		switch {
		case i.dead:
		case written:
			s.counts.Written++
		case s.lost == nil:
			s.counts.Paused++
		}
	}
}

// forgetLocked takes i out of the list of pending records. s.mu must be held.
func (s *Store) forgetLocked(i *item) {
	at := s.pending[i.p.id]
	if at == i {
		if i.next == nil {
			delete(s.pending, i.p.id)
		} else {
			s.pending[i.p.id] = i.next
		}
		return
	}
	for ; at != nil; at = at.next {
		if at.next == i {
			at.next = i.next
			return
		}
	}
}

// addLocked adds i, which has been written, to the index. s.mu must be held.
func (g *segment) addLocked(s *Store, i *item) {
	g.places = i.p.append(g.places)
	g.size += i.p.size()
	s.bytes += i.p.size()
	if g.first == 0 {
		g.first = i.p.seq
	}
	g.tags = g.tags || i.p.flags&flagTagged != 0
	if dead, _ := s.marks.whole(&i.p); !dead && !i.dead {
		g.slots = append(g.slots, s.index.add(i.p, g.number))
	}
}

// segmentFor returns the segment for records of that size and number, once there is
// room for them. The caller has to release it.
func (s *Store) segmentFor(size int64, records int) (*segment, error) {
	s.mu.Lock()
	g := s.active
	s.mu.Unlock()
	if g != nil && (g.size+size > s.o.segmentBytes() || len(g.places)/placeSize+records > s.o.segmentObjects()) && g.size > segmentHeader {
		s.retire(g)
		g = nil
	}
	if err := s.makeRoom(size, records); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if g = s.active; g != nil { // making room can have removed it
		g.users.Add(1)
		s.mu.Unlock()
		return g, nil
	}
	number := s.next
	s.next++
	s.mu.Unlock()
	g, err := s.createSegment(number)
	if err != nil {
		return nil, err
	}
	g.users.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments, s.active, s.files[number] = append(s.segments, g), g, g
	s.bytes += g.size
	return g, nil
}

// retire seals g: it gets no more records. Without its hint file, opening the folder
// takes longer.
func (s *Store) retire(g *segment) {
	s.mu.Lock()
	if s.active == g {
		s.active = nil
	}
	gone := s.files[g.number] != g
	s.mu.Unlock()
	if gone {
		return
	}
	hint, err := s.writeHint(g)
	if err != nil {
		s.failed("write a hint file", err)
	}
	s.mu.Lock()
	gone = s.files[g.number] != g // it was removed meanwhile
	if !gone {
		g.hint, g.places = hint, nil
		s.bytes += hint
	}
	s.mu.Unlock()
	if gone && err == nil {
		_ = s.o.Files.Remove(s.hintName(g.number))
	}
}

// makeRoom removes segments until the folder stays within its bounds with records of
// that size and number. It leaves room for the log, twice, and for the hint file of
// the active segment.
func (s *Store) makeRoom(size int64, records int) error {
	for {
		s.mu.Lock()
		hint := int64(hintHeader + sumSize + records*placeSize)
		if s.active != nil {
			hint += int64(len(s.active.places))
		}
		full := s.bytes+size+hint+segmentHeader+2*s.o.logBytes() > s.o.Bytes ||
			s.index.count+records > s.o.Objects
		empty := len(s.segments) == 0
		s.mu.Unlock()
		if !full || empty {
			return nil
		}
		if err := s.removeOldest(); err != nil {
			return err
		}
	}
}

// removeOldest removes the oldest segment.
func (s *Store) removeOldest() error {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.Lock()
	if len(s.segments) == 0 {
		s.mu.Unlock()
		return nil
	}
	g := s.segments[0]
	s.mu.Unlock()
	// The file goes first, and for good: a record that is no longer in the index can
	// be purged without a trace in the log.
	if err := s.removeForGood(g.number); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Evicted += uint64(s.unlistLocked(g)) //nolint:gosec // not negative
	return nil
}

// unlistLocked takes g out of the list, and its records out of the index. s.mu must
// be held.
func (s *Store) unlistLocked(g *segment) (n int) {
	s.segments = append([]*segment(nil), s.segments[1:]...)
	delete(s.files, g.number)
	s.bytes -= g.size + g.hint
	if s.active == g {
		s.active = nil
	}
	for _, at := range g.slots {
		if int(at) >= len(s.index.slots) {
			continue // everything was removed since
		}
		p := s.index.slots[at]
		if p.segment != g.number || p.seq == 0 {
			continue
		}
		n += s.index.remove(p.id, func(o *slot) bool { return o.segment == g.number && o.seq == p.seq }, func(*slot) {})
	}
	g.slots = nil
	g.release()
	return n
}

// failed counts an error, and turns writing off for a while.
func (s *Store) failed(doing string, err error) {
	s.mu.Lock()
	s.counts.Errors++
	first := time.Now().After(s.paused)
	s.paused = time.Now().Add(s.o.Pause)
	s.mu.Unlock()
	if first {
		s.log.Warn("the cache folder cannot be written; responses are kept in memory only, and writing is tried again",
			"folder", s.o.Folder, "operation", doing, "error", err, "again_in", s.o.Pause)
	}
}
