package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A Follower records in a Ledger what a running server appends to a stream.
// [Follower.Read] reads new messages; [Follower.Note] records them once they are
// flushed. A Follower is not safe for concurrent use.
type Follower struct {
	dir    string // the folder of the stream
	stream string
	ledger *Ledger

	index int // of the block; negative before the first read
	file  *os.File
	info  os.FileInfo
	off   int64

	listed time.Time // the folder's modification time, if there was no block after index
	read   []message
	last   uint64
}

// Follow returns a Follower of a stream in the folder of a server. It begins with the
// last block, because the ledger already lists what was there when the server was
// started.
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

// Last returns the last recorded sequence.
func (f *Follower) Last() uint64 { return f.ledger.last }

// Jobs returns the number of jobs in the Ledger; see [Ledger.Jobs].
func (f *Follower) Jobs(now time.Time) int { return f.ledger.Jobs(now) }

// Close closes the files.
func (f *Follower) Close() error {
	f.shut()
	return f.ledger.Close()
}

func (f *Follower) shut() {
	if f.file != nil {
		_ = f.file.Close() // opened only for reading
		f.file = nil
	}
}

// Sync flushes the recorded messages to the disk.
func (f *Follower) Sync() error { return f.ledger.Sync() }

// Read reads what has been written to the stream by now.
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
			continue // the block was emptied and removed
		}
		f.file = file
		if f.info, err = file.Stat(); err != nil {
			return err
		}
	}
}

// Note records what Read has read. The caller must have flushed it since.
func (f *Follower) Note(now time.Time) error {
	err := f.ledger.note(f.read, f.last, now)
	if err == nil {
		f.read = f.read[:0]
	}
	return err
}

// rest reads the rest of the block, or all of it if the block was replaced.
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
			break // the record is still being written
		}
		if !ok {
			return fmt.Errorf("block %d of stream %s has no valid record at offset %d", f.index, f.stream, f.off)
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

// next returns the first block after the current one, or a negative number if there
// is none. A folder that has not changed since it was listed is not listed again.
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
	// A change within one tick of the file system's clock might go unseen.
	if f.listed = (time.Time{}); now.Sub(info.ModTime()) > 5*time.Second {
		f.listed = info.ModTime()
	}
	return -1, nil
}

func blockPath(dir string, index int) string {
	return filepath.Join(dir, "msgs", strconv.Itoa(index)+".blk")
}

// blockIndexes returns the blocks of the stream in dir, in order.
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
		if i, ok := blockNumber(name); ok {
			all = append(all, i)
		}
	}
	return sorted(all), nil
}
