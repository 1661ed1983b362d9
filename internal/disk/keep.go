package disk

import (
	"path/filepath"
	"time"
)

// keepLog is the goroutine that writes removals to the log. It ends after Close, when
// all are written.
func (s *Store) keepLog() {
	var again <-chan time.Time
	for {
		ending := false
		select {
		case <-s.kick:
		case <-again:
		case <-s.stop:
			ending = true
		}
		again = nil
		if !s.flush(ending) {
			again = time.After(s.o.Pause)
		}
		if ending {
			return
		}
	}
}

// flush writes the removals that there are, and flushes them if somebody wants that.
// It reports false if the folder cannot be used.
func (s *Store) flush(ending bool) bool {
	s.mu.Lock()
	buf, upto, lost := s.ledger, s.seq, s.lost != nil
	s.ledger = nil
	want := s.wanted > s.durable
	s.mu.Unlock()
	if lost {
		return s.discard()
	}
	if len(buf) == 0 && !want {
		return true
	}
	err := s.journal.append(buf)
	if err != nil {
		s.failed("write the log of purges", err)
		if err = s.removeOldest(); err == nil { // it may take the room that the log needs
			err = s.journal.append(buf)
		}
	}
	if err == nil && (want || ending) {
		// A flush that failed cannot be repeated: the system may have given up the
		// data, and reports success next time.
		if err = s.journal.file.Sync(); err != nil {
			s.failed("flush the log of purges", err)
		}
	}
	if err != nil {
		return s.discard()
	}
	s.mu.Lock()
	s.counts.Removals += uint64(len(buf) / removalSize)
	s.logged = s.journal.size
	if want {
		s.counts.Flushes++
		s.durable = upto
		close(s.flushed)
		s.flushed = make(chan struct{})
	}
	s.mu.Unlock()
	if s.journal.size > s.o.logBytes() {
		return s.shorten()
	}
	return true
}

// shorten rewrites the log without the removals that affect no record any more. If
// those that are left are too many, it removes the oldest segments.
func (s *Store) shorten() bool {
	m, err := readLog(s.journal.file)
	for err == nil {
		s.mu.Lock()
		first, some := s.oldestLocked(), len(s.segments) > 0
		s.marks.trim(first, s.o.tagRemovals())
		s.mu.Unlock()
		m.trim(first, s.o.tagRemovals())
		if int64(len(m))*removalSize <= s.o.logBytes()/2 || !some {
			break
		}
		err = s.removeOldest()
	}
	replaced := false
	if err == nil {
		var j *journal
		if j, err = s.rewriteLog(m); j != nil {
			_ = s.journal.file.Close()
			s.journal, replaced = j, true
		}
	}
	if err == nil {
		return true
	}
	s.failed("rewrite the log of purges", err)
	return !replaced && s.journal.size < 2*s.o.logBytes() || s.discard()
}

// discard gives up all records, because removals cannot be recorded: without records,
// none is needed. It reports false if even that fails. Then the folder is not used
// until it succeeds.
func (s *Store) discard() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.Lock()
	first := s.lost == nil
	s.index = newIndex()
	// Until the files are gone, a purge that finds nothing has to wait: after a crash, what
	// it would have removed is there again.
	s.seq++
	s.recorded = s.seq
	all := s.segments
	s.mu.Unlock()
	err := s.removeAll(all) // no segment is added: writing is held
	var j *journal
	if err == nil {
		if j, err = s.rewriteLog(nil); j != nil {
			_ = s.journal.file.Close()
			s.journal = j
		}
	}
	s.mu.Lock()
	s.lost = err
	if err == nil {
		s.counts.Discarded++
		s.ledger, s.durable, s.marks = nil, s.seq, removals{}
		for len(s.segments) > 0 {
			s.unlistLocked(s.segments[0])
		}
		s.dropAllLocked()
	}
	close(s.flushed)
	s.flushed = make(chan struct{})
	s.mu.Unlock()
	switch {
	case err == nil:
		s.log.Warn("all responses in the cache folder were removed, because a purge could not be recorded", "folder", s.o.Folder)
	case first:
		s.log.Error("purges cannot be recorded in the cache folder, and its files cannot be removed; it is not used until they can",
			"folder", s.o.Folder, "error", err, "again_in", s.o.Pause)
	}
	return err == nil
}

// removeAll removes the files of segments for good.
func (s *Store) removeAll(all []*segment) error {
	for _, g := range all {
		if err := s.removeFiles(g.number); err != nil {
			return err
		}
	}
	_ = s.o.Files.Remove(filepath.Join(s.o.Folder, logNext))
	return s.o.Files.Flush(s.o.Folder)
}
