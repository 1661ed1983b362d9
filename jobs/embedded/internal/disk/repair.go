package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// How far sequences, and with them fences, are advanced by a repair.
const (
	// raiseRepaired is more than the number of messages that were written but not
	// flushed when the store was damaged.
	raiseRepaired = 1 << 20
	// raiseRestored is more than the number of messages written since a copy was
	// made. raiseRecent is used if the copy is only minutes old, because the server
	// steps one by one through the sequences after messages written within its window
	// for duplicates, which is two minutes.
	raiseRestored = 1 << 32
	raiseRecent   = 1 << 22
	recently      = 5 * time.Minute
)

// RepairOptions control how a store is repaired.
type RepairOptions struct {
	DryRun   bool // change nothing
	Restored bool // the whole folder is an older copy

	// Meta returns the metadata and its checksum for a stream that has none.
	Meta func(stream string) ([2][]byte, error)

	Now time.Time
}

// Repair makes the files of a stopped server usable again, and keeps a copy of
// everything that it cuts.
//
//  1. It copies what is damaged.
//  2. It rewrites damaged blocks with all records whose checksum matches, including
//     those after the damage.
//  3. It marks a job that had begun, and whose state is missing, as running. The job
//     is then retried or dead, as after the loss of its worker, and never runs as a
//     new one.
//  4. It advances the sequence beyond what was there, so that no fence is used twice.
//  5. It rewrites the ledger from what is there.
func Repair(dir string, o RepairOptions) (*Report, error) {
	r, err := Check(dir, o.Now)
	if err != nil {
		return nil, err
	}
	r.DryRun = o.DryRun
	if !r.Damaged() && !o.Restored {
		return r, nil
	}
	for i := range r.Streams {
		r.Streams[i].Next = max(r.Streams[i].Last, r.Streams[i].Mark) + r.stored[i].raise(o) + 1
	}
	if o.DryRun {
		return r, nil
	}
	r.Copy = filepath.Join(dir, CutFolder, o.Now.UTC().Format("20060102T150405.000000000Z")+"-repair")
	r.Changed = true
	for i := range r.stored {
		if err := r.repair(i, o); err != nil {
			return r, fmt.Errorf("namespace %s: %w", r.Streams[i].Namespace, err)
		}
	}
	return r, r.mark(o.Now)
}

// raise returns how far the sequence is advanced.
func (s *stored) raise(o RepairOptions) uint64 {
	switch {
	case !o.Restored:
		return raiseRepaired
	case o.Now.Sub(s.newest) < recently:
		return raiseRecent
	}
	return raiseRestored
}

func (r *Report) repair(i int, o RepairOptions) error {
	s := r.stored[i]
	if err := r.copyAll(s); err != nil {
		return err
	}
	for _, sub := range []string{"msgs", "obs"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o750); err != nil {
			return err
		}
	}
	if err := r.describe(s, o); err != nil {
		return err
	}
	index := 0
	for _, b := range s.blocks {
		index = max(index, b.index)
		if len(b.holes) == 0 && b.err == nil {
			continue
		}
		if err := s.rebuild(b); err != nil {
			return err
		}
	}
	if err := s.extend(index+1, r.Streams[i], o.Now); err != nil {
		return err
	}
	if err := removeIndexes(s.dir); err != nil {
		return err
	}
	if err := remove(ledgerPath(r.Dir, s.name)); err != nil {
		return err
	}
	if err := SyncFolder(filepath.Join(s.dir, "msgs")); err != nil {
		return err
	}
	now, err := readStream(r.Dir, s.name)
	if err != nil {
		return err
	}
	if err := now.adopt(r.Dir, newContents(), o.Now); err != nil {
		return err
	}
	return KeepMeta(r.Dir, now.name)
}

// copyAll copies what is about to be changed.
func (r *Report) copyAll(s *stored) error {
	paths := []string{ledgerPath(r.Dir, s.name), filepath.Join(s.dir, metaFiles[0]), filepath.Join(s.dir, metaFiles[1])}
	for _, b := range s.blocks {
		if len(b.holes) > 0 || b.err != nil {
			paths = append(paths, b.path)
		}
	}
	for _, path := range paths {
		text, err := readFile(path, maxLedger)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("keeping a copy of what is damaged: %w", err)
		}
		to := filepath.Join(r.Copy, inDir(r.Dir, path))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := replaceFile(to, text); err != nil {
			return err
		}
	}
	return nil
}

// describe restores the metadata of a stream.
func (r *Report) describe(s *stored, o RepairOptions) error {
	if metaFault(s.dir, s.name) == nil {
		return nil
	}
	if restored, err := restoreMeta(ledgerPath(r.Dir, s.name)+".", s.name, s.dir); restored || err != nil {
		return err
	}
	both, err := o.Meta(s.name)
	if err != nil {
		return fmt.Errorf("recreating the metadata of the stream: %w", err)
	}
	for i, name := range metaFiles {
		if err := replaceFile(filepath.Join(s.dir, name), both[i]); err != nil {
			return err
		}
	}
	return nil
}

// rebuild rewrites a block with only its valid records.
func (s *stored) rebuild(b block) error {
	text, err := readFile(b.path, maxBlock)
	if err != nil {
		return err
	}
	var whole []byte
	scan(text, s.name, b.index, func(r record) { whole = append(whole, text[r.off:r.off+r.size]...) })
	if len(whole) == 0 {
		return os.Remove(b.path)
	}
	return replaceFile(b.path, whole)
}

// extend adds a block with the states of jobs that had begun, followed by a record
// with the sequence to continue from. They go in a separate block, because the server
// steps one by one through the sequences that a block leaves out.
func (s *stored) extend(index int, sr StreamReport, now time.Time) error {
	seq := max(sr.Last, sr.Mark)
	var text []byte
	h := sums(s.name, index)
	for _, m := range sr.Missing {
		item, there := s.messages[m.m.job()]
		if !there || !m.m.state || item.kind != work || m.m.seq < item.seq {
			continue
		}
		seq++
		r, err := s.begun(item, seq, now)
		if err != nil {
			return err
		}
		text = encode(text, r, h)
	}
	if len(text) > 0 {
		if err := replaceFile(blockPath(s.dir, index), text); err != nil {
			return err
		}
		index++
	}
	note := encode(nil, record{seq: sr.Next - 1, time: now.UnixNano(), tomb: true}, sums(s.name, index))
	return replaceFile(blockPath(s.dir, index), note)
}

// begun builds the state of a job that had begun, as after the loss of its worker.
func (s *stored) begun(item message, seq uint64, now time.Time) (record, error) {
	r, err := s.read(item)
	if err != nil {
		return r, err
	}
	meta := map[string]json.RawMessage{}
	if err := json.Unmarshal(field(r.header, metaHeader), &meta); err != nil {
		return r, err
	}
	for name, value := range map[string]any{
		"state": "running", "of": item.seq, "attempt": 1, "spent": 1, "begun": true,
		"worker": "not known: its state was damaged", "submitted": item.time.UTC(),
	} {
		if meta[name], err = json.Marshal(value); err != nil {
			return r, err
		}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return r, err
	}
	return record{
		seq: seq, time: now.UnixNano(), subject: r.subject[:len(r.subject)-1] + "s",
		header: fmt.Appendf(nil, "NATS/1.0\r\n%s: %s\r\nNats-TTL: %ds\r\n\r\n", metaHeader, text, int(begunTTL.Seconds())),
	}, nil
}

// begunTTL is longer than any job can wait.
const begunTTL = 60 * 24 * time.Hour

// read reads the record of a message again.
func (s *stored) read(m message) (found record, err error) {
	for _, b := range s.blocks {
		text, err := readFile(b.path, maxBlock)
		if err != nil {
			return found, err
		}
		scan(text, s.name, b.index, func(r record) {
			if r.seq == m.seq && !r.tomb {
				found = r
				found.header = slices.Clone(r.header)
			}
		})
		if found.seq == m.seq {
			return found, nil
		}
	}
	return found, fmt.Errorf("message %d is missing", m.seq)
}

// mark rewrites the mark of the folder.
func (r *Report) mark(now time.Time) error {
	m := Mark{Streams: map[string]StreamMark{}, At: now}
	for i, s := range r.Streams {
		m.Streams[r.stored[i].name] = StreamMark{s.Next - 1, s.Jobs}
	}
	_ = m.Write(r.Dir) // there is no mark if the parent folder is not writable
	return nil
}
