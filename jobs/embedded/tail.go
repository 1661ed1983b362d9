package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A tail is the last block of a stream, as it was when the stream was flushed
// last. It keeps the files open: opening and listing them for each flush cost
// half as much as the flush.
type tail struct {
	dir    string   // of the stream
	folder *os.File // with the blocks

	index int
	file  *os.File
	info  os.FileInfo

	// changed is when folder had its last change, if there was no block after
	// index then. Zero: that is not certain.
	changed time.Time
}

// coarse is how little a file system may tell times apart, and more.
const coarse = 5 * time.Second

// openTail opens the block of a stream with an index.
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

// open makes the block with the index the tail.
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

// close closes its files. That of nil does nothing.
func (t *tail) close() {
	if t == nil {
		return
	}
	t.file.Close()
	t.folder.Close()
}

// replaced reports whether the block is another file by now: it was rewritten.
func (t *tail) replaced() (bool, error) {
	info, err := os.Stat(blockFile(t.dir, t.index))
	return err == nil && !os.SameFile(info, t.info), err
}

// flush flushes the block and those after it, the last of which is the tail then.
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
		// What was written to this block between its flush and its end.
		if err = t.file.Sync(); err != nil {
			break
		}
		err = ignoreGone(t.open(next)) // one that is gone again has left nothing
	}
	if err == nil && grown {
		err = t.folder.Sync()
	}
	return err
}

// next returns the first block after the tail, or 0. Numbers are left out: a
// block that is emptied at once is gone, and the next one is there. A folder that
// has not changed since it was listed is not listed again; what changed it within
// one tick of its clock may not be seen, so it has to be older than that.
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
