package disk

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// An Entry is a record that was found. Close it after use.
type Entry struct {
	Head []byte
	// Soft: the record was expired since it was stored, or before.
	Soft bool
	Size int64 // of the body

	s    *Store
	g    *segment
	m    meta
	body []byte // if it was read with the head
}

// maxVariants is the most records of one key that Get looks at, the newest first.
const maxVariants = 64

// readWait is how long Get waits if too many reads are running.
const readWait = time.Second

// readAtOnce is the size up to which a record is read with one call.
const readAtOnce = 64 << 10

// Get returns the newest record of key whose head matches, or nil.
func (s *Store) Get(key string, match func(head []byte) bool) *Entry {
	k := idOf(key)
	var found []slot
	var files []*segment
	now := time.Now().Unix()
	s.mu.Lock()
	if s.lost == nil && !s.closed {
		s.index.each(k, func(p *slot) bool {
			if p.expires == 0 || int64(p.expires) > now {
				g := s.files[p.segment]
				g.users.Add(1)
				found, files = append(found, *p), append(files, g)
			}
			return len(found) < maxVariants
		})
	}
	s.mu.Unlock()
	var out *Entry
	for i := range found {
		if out == nil {
			out = s.read(&found[i], files[i], key, match)
		}
		if out == nil || out.g != files[i] || out.m.seq != found[i].seq {
			files[i].release()
		}
	}
	return out
}

// Has reports whether there is any record of key. It does not read the disk.
func (s *Store) Has(key string) bool {
	k := idOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost == nil && s.index.has(k)
}

// read reads the record at p, and returns it if it is one of key and matches.
func (s *Store) read(p *slot, g *segment, key string, match func(head []byte) bool) *Entry {
	size := int64(p.meta)
	if p.size() <= readAtOnce {
		size = p.size()
	}
	b := make([]byte, size)
	if !s.token() {
		s.count(func(c *Stats) { c.Busy++ })
		return nil
	}
	_, err := g.file.ReadAt(b, int64(p.offset))
	<-s.reads
	if err != nil {
		s.damaged(p, g, err)
		return nil
	}
	m, ok := readMeta(b, g.mark, p.offset)
	if !ok || m.seq != p.seq || m.id != p.id {
		s.damaged(p, g, errChecksum)
		return nil
	}
	if string(m.key) != key {
		return nil
	}
	e := &Entry{Head: m.head, Size: int64(m.body), s: s, g: g, m: m}
	if size == p.size() {
		e.body = b[m.meta:]
		for n := range blocks(len(e.body)) {
			if !m.verify(n, e.body[n*BlockSize:min(len(e.body), (n+1)*BlockSize)]) {
				s.damaged(p, g, errChecksum)
				return nil
			}
		}
	}
	alive, soft := s.fate(&m)
	if !alive {
		return nil
	}
	e.Soft = soft || m.flags&flagSoft != 0
	if !match(m.head) {
		return nil
	}
	s.count(func(c *Stats) { c.Hits++ })
	return e
}

// fate returns whether a record that was read is still there, and whether it was
// expired. The index comes first: with the records, the removals are forgotten that
// affected them.
func (s *Store) fate(m *meta) (alive, soft bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.each(m.id, func(p *slot) bool {
		if p.seq != m.seq {
			return true
		}
		alive, soft = true, p.flags&flagSoft != 0
		return false
	})
	deadAll, softAll := s.marks.whole(&m.place)
	dead, softTag := s.marks.tagged(&m.place, m.tags)
	return alive && !dead && !deadAll, soft || softAll || softTag
}

// token waits for the right to read, and reports whether it has it. The caller takes
// it from s.reads afterwards.
func (s *Store) token() bool {
	select {
	case s.reads <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(readWait)
	defer t.Stop()
	select {
	case s.reads <- struct{}{}:
		return true
	case <-t.C:
		return false
	}
}

var errChecksum = errors.New("disk: wrong checksum")

// damaged removes a record that cannot be read, also for a later start: then it may
// be readable, but older than a purge that found nothing to purge.
func (s *Store) damaged(p *slot, g *segment, err error) {
	s.mu.Lock()
	s.counts.Damaged++
	n := s.index.remove(p.id, func(o *slot) bool { return o.seq == p.seq && o.segment == p.segment }, func(*slot) {})
	if n > 0 && !s.closed {
		s.recordLocked(p.removal())
	}
	first := !g.told
	g.told = true
	s.mu.Unlock()
	if first {
		s.log.Warn("a file in the cache folder is damaged; its damaged responses are removed",
			"file", s.segmentName(g.number), "offset", p.offset, "error", err)
	}
}

// Close ends the use of e.
func (e *Entry) Close() { e.g.release() }

// Body returns the whole body, in new memory.
func (e *Entry) Body() ([]byte, error) {
	if e.body != nil || e.Size == 0 {
		return bytes.Clone(e.body), nil
	}
	b := make([]byte, e.Size)
	for n := range blocks(len(b)) {
		if err := e.block(n, b[n*BlockSize:min(len(b), (n+1)*BlockSize)]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// block reads the block with that number into b, which has its size.
func (e *Entry) block(n int, b []byte) error {
	if e.body != nil {
		copy(b, e.body[n*BlockSize:])
		return nil
	}
	e.s.reads <- struct{}{}
	_, err := e.g.file.ReadAt(b, int64(e.m.offset)+int64(e.m.meta)+int64(n)*BlockSize)
	<-e.s.reads
	if err == nil && !e.m.verify(n, b) {
		err = errChecksum
	}
	if err != nil {
		e.s.damaged(&slot{place: e.m.place, segment: e.g.number}, e.g, err)
	}
	return err
}

var buffers = sync.Pool{New: func() any { b := make([]byte, BlockSize); return &b }}

// A Reader reads the body of an Entry, block by block. Nothing is returned before its
// checksum was verified. It may not be used concurrently.
type Reader struct {
	e   *Entry
	at  int64
	n   int // the block in buf, -1 without one
	buf *[]byte
	err error
}

var (
	_ io.ReadSeeker = (*Reader)(nil)
	_ io.WriterTo   = (*Reader)(nil)
)

// NewReader returns a Reader at the start of the body. Close it before e.
func (e *Entry) NewReader() *Reader {
	return &Reader{e: e, n: -1, buf: buffers.Get().(*[]byte)}
}

// Close gives back the memory of r.
func (r *Reader) Close() {
	buffers.Put(r.buf)
	r.buf = nil
}

// Err returns the error of the last read of the disk, not that of a writer.
func (r *Reader) Err() error { return r.err }

// rest returns the rest of the current block.
func (r *Reader) rest() ([]byte, error) {
	if r.at >= r.e.Size {
		return nil, io.EOF
	}
	n := int(r.at / BlockSize)
	size := min(BlockSize, r.e.Size-int64(n)*BlockSize)
	if n != r.n {
		r.n = -1
		if r.err = r.e.block(n, (*r.buf)[:size]); r.err != nil {
			return nil, r.err
		}
		r.n = n
	}
	return (*r.buf)[r.at%BlockSize : size], nil
}

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	b, err := r.rest()
	n := copy(p, b)
	r.at += int64(n)
	return n, err
}

// WriteTo implements [io.WriterTo].
func (r *Reader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		b, err := r.rest()
		if err == io.EOF { //nolint:errorlint // rest returns it as it is
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(b)
		total += int64(n)
		r.at += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// Seek implements [io.Seeker].
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.e.Size
	}
	if offset < 0 {
		return 0, errors.New("disk: negative position")
	}
	r.at = offset
	return offset, nil
}
