package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/weir-go/weir/internal/wait"
)

// lockName is the file that is locked while the folder is open.
const lockName = "lock"

// maxFiles is the most files in a folder that are looked at.
const maxFiles = 1 << 20

var fileName = regexp.MustCompile(`^([0-9a-f]{8})\.(segment|hint)$`)

// Open opens a folder, and creates it if it does not exist. The error matches
// ErrInUse if another Store has it open.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := o.Files.Make(o.Folder); err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	lock, err := o.Files.Lock(filepath.Join(o.Folder, lockName))
	if err != nil {
		return nil, fmt.Errorf("disk: folder %s: %w", o.Folder, err)
	}
	s := newStore(o)
	s.lock = lock
	if err := s.load(); err != nil {
		for _, g := range s.segments {
			g.release()
		}
		_ = lock.Close()
		return nil, fmt.Errorf("disk: folder %s: %w", o.Folder, err)
	}
	s.work.Go(s.write)
	s.tend.Go(s.keepLog)
	return s, nil
}

// load reads the folder in these steps:
//
//  1. The removals are read. If that fails, the records are worth nothing.
//  2. The segments are opened, the oldest first, and their records indexed, without
//     those that were removed or replaced.
//  3. The oldest segments are removed, if the bounds are lower than before.
//  4. The log is written anew, with the removals that are still needed.
func (s *Store) load() error {
	numbers, err := s.list()
	if err != nil {
		return err
	}
	old, err := s.oldRemovals(len(numbers) > 0)
	if err != nil {
		s.log.Warn("the cache folder is emptied", "folder", s.o.Folder, "because", err)
		for _, n := range numbers {
			if err := s.removeForGood(n); err != nil {
				return err
			}
		}
		numbers, old = nil, removals{}
	}
	scanned, err := s.openSegments(numbers)
	if err != nil {
		return err
	}
	kept := s.indexAll(old)
	if err := s.makeRoom(0, 0); err != nil {
		return err
	}
	if s.journal, err = s.rewriteLog(kept); err != nil {
		if s.journal != nil {
			_ = s.journal.file.Close()
		}
		return err
	}
	s.logged = s.journal.size
	for _, g := range scanned {
		if s.files[g.number] == g {
			g.hint, _ = s.writeHint(g) // without it, opening takes longer
			s.bytes += g.hint
		}
	}
	for _, g := range s.segments {
		g.places = nil
	}
	return nil
}

// list returns the numbers of the segments in the folder, and removes hint files that
// belong to none.
func (s *Store) list() ([]uint32, error) {
	names, err := s.o.Files.List(s.o.Folder, maxFiles)
	if err != nil {
		return nil, err
	}
	var segments, hints []uint32
	for _, name := range names {
		m := fileName.FindStringSubmatch(name)
		switch {
		case m != nil:
			n, _ := strconv.ParseUint(m[1], 16, 32) // the expression admits nothing else
			if m[2] == "segment" {
				segments = append(segments, uint32(n))
			} else {
				hints = append(hints, uint32(n))
			}
		case name != lockName && name != logName && name != logNext:
			s.log.Warn("a file in the cache folder is not weir's; it is left alone", "folder", s.o.Folder, "file", name)
		}
	}
	slices.Sort(segments)
	for _, n := range hints {
		if _, ok := slices.BinarySearch(segments, n); !ok {
			_ = s.o.Files.Remove(s.hintName(n))
		}
	}
	if len(segments) > 0 {
		s.next = segments[len(segments)-1]
	}
	s.next++
	return segments, nil
}

var errNoLog = errors.New("the log of purges is missing")

// oldRemovals reads the log. The error says why the records are worth nothing.
func (s *Store) oldRemovals(some bool) (removals, error) {
	f, err := s.o.Files.Open(filepath.Join(s.o.Folder, logName), false)
	if err != nil {
		if !some {
			return removals{}, nil
		}
		return nil, fmt.Errorf("%w: %w", errNoLog, err)
	}
	defer f.Close()
	m, err := readLog(f)
	if err != nil {
		return nil, fmt.Errorf("log of purges: %w", err)
	}
	return m, nil
}

// removeFiles removes the files of a segment, which is for good once the folder is
// flushed. The segment may have gone in an earlier attempt, whose flush failed.
func (s *Store) removeFiles(number uint32) error {
	_ = s.o.Files.Remove(s.hintName(number))
	if err := s.o.Files.Remove(s.segmentName(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeForGood is removeFiles with the flush.
func (s *Store) removeForGood(number uint32) error {
	if err := s.removeFiles(number); err != nil {
		return err
	}
	return s.o.Files.Flush(s.o.Folder)
}

// openSegments opens the segments. One that cannot be read is removed: if it came
// back, so would records that were purged meanwhile. It returns those whose hint file
// has to be written.
func (s *Store) openSegments(numbers []uint32) (scanned []*segment, err error) {
	for _, n := range numbers {
		g, what, err := s.openSegment(n)
		if err != nil {
			s.counts.Damaged++
			s.log.Warn("a file in the cache folder cannot be read, and is removed", "file", s.segmentName(n), "error", err)
			if err := s.removeForGood(n); err != nil {
				return nil, err
			}
			continue
		}
		if what != "" {
			s.counts.Damaged++
			s.log.Warn("a file in the cache folder is incomplete", "file", s.segmentName(n), "fault", what)
		}
		s.segments, s.files[n] = append(s.segments, g), g
		s.bytes += g.size + g.hint
		if g.hint == 0 {
			scanned = append(scanned, g)
		}
	}
	return scanned, nil
}

// indexAll adds the records of all segments to the index. It returns the removals
// that affect any of them.
func (s *Store) indexAll(old removals) removals {
	records := 0
	for _, g := range s.segments {
		records += len(g.places) / placeSize
	}
	s.index.first = make(map[uint64]int32, records)
	s.index.slots = make([]slot, 0, records)
	kept := removals{}
	for _, g := range s.segments {
		g.slots = make([]int32, 0, len(g.places)/placeSize)
		for b := g.places; len(b) >= placeSize; b = b[placeSize:] {
			s.indexOne(g, readPlace(b), old, kept)
		}
	}
	for w, seq := range old {
		s.seq = max(s.seq, seq)
		if w.byTag() || w.kind >= ofAll {
			s.marks.add(removal{w, seq})
		}
	}
	s.marks.trim(s.oldestLocked(), s.o.tagRemovals())
	for w, seq := range s.marks {
		kept[w] = seq
	}
	s.seq = (s.seq>>20 + 1) << 20 // numbers are not used again, even if a record with a higher one was lost
	s.durable = s.seq
	return kept
}

// indexOne adds one record to the index, unless it was removed. One that is of no use
// any more stays there, as in a Store that was open all the time: a purge must find
// it. indexOne adds the removals that affect the record to kept.
func (s *Store) indexOne(g *segment, p place, old, kept removals) {
	s.seq = max(s.seq, p.seq)
	if g.first == 0 {
		g.first = p.seq
	}
	g.tags = g.tags || p.flags&flagTagged != 0
	s.dropLocked(p.id, func(o *place) bool { return p.flags&flagAll != 0 || o.variant == p.variant })
	if len(old) > 0 {
		for _, w := range []what{{kind: ofKey, id: p.id}, {kind: softKey, id: p.id}, {kind: ofVariant, id: p.id, variant: p.variant}} {
			if seq := old[w]; seq > p.seq {
				kept[w] = seq
			}
		}
		gone, soft := old.keyed(&p)
		whole, _ := old.whole(&p)
		if gone || whole {
			return
		}
		if soft {
			p.flags |= flagSoft
		}
	}
	g.slots = append(g.slots, s.index.add(p, g.number))
}

// Close writes what is queued until ctx ends, and closes the folder. After it, Get
// finds nothing, and Sync returns ErrClosed. If ctx ends first, the rest of the queue
// is lost, and Close returns its cause. It may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return wait.For(ctx, s.tend.Wait)
	}
	signal(s.wake)
	err := wait.For(ctx, s.work.Wait)
	if err != nil {
		close(s.give)
		s.work.Wait() // for a single write
	}
	s.mu.Lock()
	active := s.active
	s.mu.Unlock()
	if active != nil {
		s.retire(active)
	}
	close(s.stop)
	s.tend.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = newIndex()
	for _, g := range s.segments {
		g.release()
	}
	s.segments, s.files = nil, map[uint32]*segment{}
	_ = s.journal.file.Close()
	_ = s.lock.Close()
	close(s.flushed)
	s.flushed = make(chan struct{})
	return err
}
