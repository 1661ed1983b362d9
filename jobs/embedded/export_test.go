package embedded

import (
	"path/filepath"
	"sync/atomic"
)

// SetFree makes servers that are started later see n free bytes on their disk. The
// returned function restores the real value. n may change at any time.
func SetFree(n *atomic.Int64) (restore func()) {
	freeOn = func(string) (int64, bool) { return n.Load(), true }
	return func() { freeOn = freeBytes }
}

// SetPrepared makes each start call f once its files are copied and prepared, before there
// is an embedded server.
func SetPrepared(f func(dir string)) (restore func()) {
	old := isPrepared
	isPrepared = f
	return func() { isPrepared = old }
}

// A Flusher flushes the streams of a folder that no server uses.
type Flusher struct{ f *flusher }

func NewFlusher(dir string) Flusher {
	return Flusher{&flusher{dir: dir, tails: make(map[string]*tail)}}
}

// Flush flushes a stream, and returns the last block that was flushed.
func (f Flusher) Flush(stream string) (block int, err error) {
	err = f.f.once(stream)
	if last := f.f.tails[stream]; last != nil {
		block = last.index
	}
	return block, err
}

// Holds reports whether the last flushed block is kept open, as opposed to an older
// file of the same name.
func (f Flusher) Holds(stream string) bool {
	t := f.f.tails[stream]
	if t == nil {
		return false
	}
	replaced, err := t.replaced()
	return err == nil && !replaced
}

// Close closes the open files of a stream.
func (f Flusher) Close(stream string) { f.f.forget(stream) }

// Block returns the path of a block.
func (f Flusher) Block(stream string, block int) string {
	return blockFile(filepath.Join(f.f.dir, stream), block)
}
