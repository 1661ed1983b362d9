package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Follower notes in a Ledger what a running server appends to a stream. What was
// read by [Follower.Read] is noted by [Follower.Note], once it was flushed. It is
// not safe for concurrent use.
type Follower struct {
	dir    string // of the stream
	stream string
	ledger *Ledger

	index int // of the block; below 0: none was read yet
	file  *os.File
	info  os.FileInfo
	off   int64

	listed time.Time // when the folder had its last change, if there was no block after index
	read   []message
	last   uint64
}

// Follow returns a Follower of a stream in the folder of a server. What was there
// when the server was started is in the ledger already: it begins with the last block.
func Follow(dir, streams, stream string) (*Follower, error) {
	l, err := OpenLedger(dir, stream)
	if err != nil {
		return nil, err
	}
	f := &Follower{dir: filepath.Join(streams, stream), stream: stream, ledger: l, index: -1, last: l.last}
	if l.last == 0 {
		return f, nil
	}
	blocks, err := blockIndexes(f.dir)
	if err != nil || len(blocks) == 0 {
		return f, err
	}
	f.index = blocks[len(blocks)-1] - 1
	return f, nil
}

// Last is the last sequence that was noted.
func (f *Follower) Last() uint64 { return f.ledger.last }

// Jobs is that of the Ledger.
func (f *Follower) Jobs(now time.Time) int { return f.ledger.Jobs(now) }

// Close closes its files.
func (f *Follower) Close() error {
	f.shut()
	return f.ledger.Close()
}

func (f *Follower) shut() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// Sync returns when what was noted is on the disk.
func (f *Follower) Sync() error { return f.ledger.Sync() }

// Read reads what was written to the stream by now.
func (f *Follower) Read() error {
	for {
		if f.file != nil {
			if err := f.rest(); err != nil {
				return err
			}
		}
		next, err := f.next()
		if err != nil || next < 0 {
			return err
		}
		f.shut()
		file, err := os.Open(blockPath(f.dir, next))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.index, f.off, f.listed = next, 0, time.Time{}
		if err != nil {
			continue // it was emptied, and removed
		}
		f.file = file
		if f.info, err = file.Stat(); err != nil {
			return err
		}
	}
}

// Note notes what was read, which was flushed since.
func (f *Follower) Note(now time.Time) error {
	err := f.ledger.note(f.read, f.last, now)
	if err == nil {
		f.read = f.read[:0]
	}
	return err
}

// rest reads the rest of the block, and all of it again where it was replaced.
func (f *Follower) rest() error {
	info, err := os.Stat(blockPath(f.dir, f.index))
	if err == nil && !os.SameFile(info, f.info) {
		file, err := os.Open(blockPath(f.dir, f.index))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			f.shut()
			f.file, f.info, f.off = file, info, 0
		}
	}
	if info, err = f.file.Stat(); err != nil || info.Size() <= f.off {
		return err
	}
	b := make([]byte, info.Size()-f.off)
	n, err := f.file.ReadAt(b, f.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	b = b[:n]
	h := sums(f.stream, f.index)
	for off := 0; off < len(b); {
		r, short, ok := parse(b, off, h)
		if short {
			break // it is being written
		}
		if !ok {
			return fmt.Errorf("block %d of stream %s has no record at %d", f.index, f.stream, f.off)
		}
		off += r.size
		f.off += int64(r.size)
		if m, ok := r.message(); ok && r.seq > f.last {
			f.read = append(f.read, m)
		}
		f.last = max(f.last, r.seq)
	}
	return nil
}

// next returns the first block after the one that is read, below 0 for none. A folder
// that has not changed since it was listed is not listed again.
func (f *Follower) next() (int, error) {
	folder := filepath.Join(f.dir, "msgs")
	info, err := os.Stat(folder)
	if err != nil {
		return -1, err
	}
	if f.file != nil && !f.listed.IsZero() && info.ModTime().Equal(f.listed) {
		return -1, nil
	}
	now := time.Now()
	blocks, err := blockIndexes(f.dir)
	if err != nil {
		return -1, err
	}
	for _, i := range blocks {
		if i > f.index {
			return i, nil
		}
	}
	// What changed it within one tick of its clock may not be seen.
	if f.listed = (time.Time{}); now.Sub(info.ModTime()) > 5*time.Second {
		f.listed = info.ModTime()
	}
	return -1, nil
}

func blockPath(dir string, index int) string {
	return filepath.Join(dir, "msgs", strconv.Itoa(index)+".blk")
}

// blockIndexes returns the blocks of the stream in dir, in their order.
func blockIndexes(dir string) ([]int, error) {
	d, err := os.Open(filepath.Join(dir, "msgs"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		number, ok := strings.CutSuffix(name, ".blk")
		if i, err := strconv.Atoi(number); ok && err == nil && i >= 0 {
			all = append(all, i)
		}
	}
	return sorted(all), nil
}
