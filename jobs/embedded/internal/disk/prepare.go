package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Prepared lists what was done to undamaged files before a server starts on them.
type Prepared struct {
	Streams []StreamReport
	Healed  []Healed
	Queues  []Queue // queues with items
	Cut     int     // bytes of incomplete writes

	stored []*stored
}

// Sound is Check, except that damage is an error, a [DamageError].
func Sound(dir string, now time.Time) (*Report, error) {
	r, err := Check(dir, now)
	if err == nil && r.Damaged() {
		err = &DamageError{r}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Prepare gets the files of a stopped server ready for it. The Report is that of [Sound],
// since which nothing was changed.
//
//  1. It removes the rest of an incomplete write, which was never acknowledged.
//  2. It removes the server's indexes. The server rebuilds them from the blocks. The
//     blocks have checksums, whereas an index of times to live has none.
//  3. It rewrites what the consumers have handed out, and moves away their files if they
//     would leave out jobs.
//  4. It adds what was written after the last entries of the ledgers to them, once
//     that is flushed.
func Prepare(r *Report, now time.Time) (*Prepared, error) {
	p := &Prepared{Streams: r.Streams}
	for i, s := range r.stored {
		if !exists(s.dir) {
			continue
		}
		if err := p.stream(r.Dir, s, r.ledger[i], now); err != nil {
			return nil, err
		}
		p.stored = append(p.stored, s)
	}
	return p, nil
}

func (p *Prepared) stream(dir string, s *stored, c *contents, now time.Time) error {
	if n := len(s.blocks); n > 0 {
		b := s.blocks[n-1]
		for _, h := range b.holes {
			if err := os.Truncate(b.path, int64(h.off)); err != nil {
				return err
			}
			p.Cut += h.size
		}
	}
	if err := removeIndexes(s.dir); err != nil {
		return err
	}
	if err := p.restoreMeta(dir, s); err != nil {
		return err
	}
	if err := s.bury(c.ended, now); err != nil {
		return err
	}
	away := func(path string) error { return moveAway(dir, "consumers", path, now) }
	done, queues, err := heal(dir, s, away, now)
	if err != nil {
		return err
	}
	p.Healed, p.Queues = append(p.Healed, done...), append(p.Queues, queues...)
	if err := KeepMeta(dir, s.name); err != nil {
		return err
	}
	return s.adopt(dir, c, now)
}

// restoreMeta replaces the damaged metadata of a stream by its copy: a process that was
// killed while it wrote them leaves a part of each version.
func (p *Prepared) restoreMeta(dir string, s *stored) error {
	fault := metaFault(s.dir, s.name)
	if fault == nil {
		return nil
	}
	restored, err := restoreMeta(ledgerPath(dir, s.name)+".", s.name, s.dir)
	if restored {
		p.Healed = append(p.Healed, Healed{filepath.Join(s.dir, metaFiles[0]), cause(fault)})
	}
	return err
}

// bury removes the items of finished jobs, as their acknowledgement would have: those
// whose worker was killed between the outcome and the acknowledgement, and those whose
// removal is lost. The server hands them out again, and if the outcome expires before a
// worker gets one, it would run as a new job. The removals go in a separate block,
// like those of the server.
func (s *stored) bury(ended map[uint64]bool, now time.Time) error {
	index := 1
	if n := len(s.blocks); n > 0 {
		index = s.blocks[n-1].index + 1
	}
	var text []byte
	h := sums(s.name, index)
	for seq, m := range s.items {
		if ended[seq] || s.over(m) {
			text = encode(text, record{seq: seq, time: now.UnixNano(), tomb: true}, h)
			s.tombs[seq] = true
			delete(s.items, seq)
			delete(s.messages, m.key)
			s.removed++
		}
	}
	if len(text) == 0 {
		return nil
	}
	return replaceFile(blockPath(s.dir, index), text)
}

// adopt records in the ledger what it lacks.
func (s *stored) adopt(dir string, c *contents, now time.Time) error {
	if s.last <= c.last {
		return nil
	}
	for _, b := range s.blocks {
		if err := flushFile(b.path); err != nil {
			return err
		}
	}
	if err := SyncFolder(filepath.Join(s.dir, "msgs")); err != nil {
		return err
	}
	l, err := OpenLedger(dir, s.name)
	if err != nil {
		return err
	}
	var fresh []message
	for _, m := range s.messages {
		if m.seq > c.last {
			fresh = append(fresh, m)
		}
	}
	err = l.note(fresh, s.last, now)
	if err == nil {
		err = l.Sync()
	}
	return errors.Join(err, l.Close())
}

// indexes are files that the server rebuilds if they are missing.
var indexes = [...]string{"index.db", "thw.db", "sched.db"}

func removeIndexes(stream string) error {
	for _, name := range indexes {
		if err := remove(filepath.Join(stream, "msgs", name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file that may be missing.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// KeepMeta keeps a copy of the metadata of a stream and of its consumers with its
// ledger, in the folder of a server. What is being written at the moment keeps its
// previous copy. Without the copy of a consumer's, a damaged bit would end a pause.
func KeepMeta(dir, stream string) error {
	from, to := filepath.Join(streamsFolder(dir), stream), ledgerPath(dir, stream)
	if err := keepMeta(from, stream, to+"."); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(from, "obs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := keepMeta(filepath.Join(from, "obs", e.Name()), stream+"/"+e.Name(), consumerCopy(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// consumerCopy returns what the paths of the copies of a consumer's metadata begin with.
func consumerCopy(ledger, queue string) string { return ledger + ".obs/" + queue + "." }

// keepMeta copies the metadata in from, whose checksum has this name, to the files that
// begin with to.
func keepMeta(from, name, to string) error {
	if metaFault(from, name) != nil {
		return nil // its creation was cut short, or it is being written
	}
	for _, file := range metaFiles {
		text, err := small(filepath.Join(from, file))
		if err != nil {
			return err
		}
		if have, err := small(to + file); err == nil && string(have) == string(text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to+file), 0o700); err != nil {
			return err
		}
		if err := replaceFile(to+file, text); err != nil {
			return err
		}
	}
	return nil
}

// restoreMeta restores the metadata in to, whose checksum has this name, from the copies
// whose paths begin with from. It reports whether there are any.
func restoreMeta(from, name, to string) (bool, error) {
	if copyFault(from, name) != nil {
		return false, nil
	}
	if err := os.MkdirAll(to, 0o750); err != nil {
		return false, err
	}
	for _, file := range metaFiles {
		text, err := small(from + file)
		if err == nil {
			err = replaceFile(filepath.Join(to, file), text)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// CutFolder is the folder, within that of the server, in which repairs and starts
// keep what they take away.
const CutFolder = "weir.cut"

// moveAway moves a file or folder into CutFolder.
func moveAway(dir, what, path string, now time.Time) error {
	to := filepath.Join(dir, CutFolder, now.UTC().Format("20060102T150405.000000000Z")+"-"+what, inDir(dir, path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(path, to)
}

func flushFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
