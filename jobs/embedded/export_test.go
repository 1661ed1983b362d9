package embedded

import (
	"path/filepath"
	"sync/atomic"
)

// SetFree lets servers that are started later see n free bytes on their disk,
// and returns what brings the truth back. n may be changed meanwhile.
func SetFree(n *atomic.Int64) (restore func()) {
	freeOn = func(string) (int64, bool) { return n.Load(), true }
	return func() { freeOn = freeBytes }
}

// Flusher flushes the streams of a folder, of no server.
type Flusher struct{ f *flusher }

func NewFlusher(dir string) Flusher {
	return Flusher{&flusher{dir: dir, tails: make(map[string]*tail)}}
}

// Flush flushes a stream, and returns which of its blocks was flushed last.
func (f Flusher) Flush(stream string) (block int, err error) {
	err = f.f.once(stream)
	if last := f.f.tails[stream]; last != nil {
		block = last.index
	}
	return block, err
}

// Holds reports whether the block that was flushed last is kept open, and not
// another file that had its name.
func (f Flusher) Holds(stream string) bool {
	t := f.f.tails[stream]
	if t == nil {
		return false
	}
	replaced, err := t.replaced()
	return err == nil && !replaced
}

// Close closes what is kept open.
func (f Flusher) Close(stream string) { f.f.forget(stream) }

// Block is the file of a block.
func (f Flusher) Block(stream string, block int) string {
	return blockFile(filepath.Join(f.f.dir, stream), block)
}
