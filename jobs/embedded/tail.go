package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A tail is the last block of a stream as of the last flush. It keeps the files open,
// because opening and listing them for each flush cost half as much as the flush.
type tail struct {
	dir    string   // the folder of the stream
	folder *os.File // the folder with the blocks

	index int
	file  *os.File
	info  os.FileInfo

	// changed is the folder's modification time, if there was no block after index
	// then. Zero: unknown.
	changed time.Time
}

// coarse is more than the resolution of any file system's timestamps.
const coarse = 5 * time.Second

// openTail opens the block with this index.
func openTail(dir string, index int) (*tail, error) {
	folder, err := os.Open(blockFolder(dir))
	if err != nil {
		return nil, err
	}
	t := &tail{dir: dir, folder: folder}
	if err := t.open(index); err != nil {
		folder.Close()
		return nil, err
	}
	return t, nil
}

// open makes the block with this index the tail.
func (t *tail) open(index int) error {
	file, err := os.Open(blockFile(t.dir, index))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	if t.file != nil {
		t.file.Close()
	}
	t.index, t.file, t.info, t.changed = index, file, info, time.Time{}
	return nil
}

// close closes the files. On a nil tail it does nothing.
func (t *tail) close() {
	if t == nil {
		return
	}
	t.file.Close()
	t.folder.Close()
}

// replaced reports whether the block was rewritten, and so is a new file.
func (t *tail) replaced() (bool, error) {
	info, err := os.Stat(blockFile(t.dir, t.index))
	return err == nil && !os.SameFile(info, t.info), err
}

// flush flushes the block and those after it. The last of them becomes the tail.
func (t *tail) flush() error {
	grown, err := t.replaced()
	if grown {
		err = t.open(t.index)
	}
	for err == nil {
		if err = t.file.Sync(); err != nil {
			break
		}
		next := 0
		if next, err = t.next(); next == 0 {
			break
		}
		grown = true
		// Flush what was written to this block between its last flush and its end.
		if err = t.file.Sync(); err != nil {
			break
		}
		err = ignoreGone(t.open(next)) // if it is gone again, there is nothing to flush
	}
	if err == nil && grown {
		err = t.folder.Sync()
	}
	return err
}

// next returns the first block after the tail, or 0. Block numbers can have gaps: the
// server may have removed an emptied block and created the next one. A folder that
// has not changed since it was listed is not listed again. A change within one tick
// of the file system's clock might go unseen, so this applies only to times older
// than that.
func (t *tail) next() (int, error) {
	info, err := t.folder.Stat()
	if err != nil {
		return 0, err
	}
	if changed := info.ModTime(); !t.changed.IsZero() && changed.Equal(t.changed) {
		return 0, nil
	}
	now := time.Now()
	if _, err := t.folder.Seek(0, 0); err != nil {
		return 0, err
	}
	names, err := t.folder.Readdirnames(-1)
	next := 0
	for _, name := range names {
		if n, isBlock := blockIndex(name); isBlock && n > t.index && (next == 0 || n < next) {
			next = n
		}
	}
	if err == nil && next == 0 && now.Sub(info.ModTime()) > coarse {
		t.changed = info.ModTime()
	}
	return next, err
}

func blockFolder(dir string) string { return filepath.Join(dir, "msgs") }

func blockFile(dir string, index int) string {
	return filepath.Join(blockFolder(dir), strconv.Itoa(index)+".blk")
}

func blockIndex(name string) (int, bool) {
	number, ok := strings.CutSuffix(name, ".blk")
	index, err := strconv.Atoi(number)
	return index, ok && err == nil
}

// lastBlock returns the path of the last block of the stream in dir, or "".
func lastBlock(dir string) string {
	entries, _ := os.ReadDir(blockFolder(dir)) // if it is gone, watch reports that
	last := -1
	for _, e := range entries {
		if n, isBlock := blockIndex(e.Name()); isBlock {
			last = max(last, n)
		}
	}
	if last < 0 {
		return ""
	}
	return blockFile(dir, last)
}
