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
}

// Prepare checks the files of a stopped server, and gets them ready for it. If it
// returns a DamageError, it has changed nothing.
//
//  1. It removes the rest of an incomplete write, which was never acknowledged.
//  2. It removes the server's indexes. The server rebuilds them from the blocks. The
//     blocks have checksums, whereas an index of times to live has none.
//  3. It rewrites what the consumers have handed out, and moves away their files if they
//     would leave out jobs.
//  4. It adds what was written after the last entries of the ledgers to them, once
//     that is flushed.
func Prepare(dir string, now time.Time) (*Prepared, error) {
	r, err := Check(dir, now)
	if err != nil {
		return nil, err
	}
	if r.Damaged() {
		return nil, &DamageError{r}
	}
	p := &Prepared{Streams: r.Streams}
	for i, s := range r.stored {
		if !exists(s.dir) {
			continue
		}
		if err := p.stream(dir, s, r.ledger[i], now); err != nil {
			return nil, err
		}
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
	away := func(path string) error { return moveAway(dir, "consumers", path, now) }
	done, queues, err := heal(s, away, now)
	if err != nil {
		return err
	}
	p.Healed, p.Queues = append(p.Healed, done...), append(p.Queues, queues...)
	if err := keepMeta(dir, s); err != nil {
		return err
	}
	return s.adopt(dir, c, now)
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

// keepMeta keeps a copy of a stream's metadata beside its ledger.
func keepMeta(dir string, s *stored) error {
	if metaFault(s.dir, s.name) != nil {
		return nil // the creation of the stream was cut short
	}
	for _, name := range metaFiles {
		text, err := small(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		path := ledgerPath(dir, s.name) + "." + name
		if have, err := small(path); err == nil && string(have) == string(text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := replaceFile(path, text); err != nil {
			return err
		}
	}
	return nil
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
