package disk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"sync/atomic"
)

// A segment is a file of records.
type segment struct {
	number uint32
	mark   uint64
	file   File
	users  atomic.Int32 // the Store, and entries that are read; the last one closes the file

	size   int64  // of the complete records, with the header; changed by the writer, with Store.mu held
	places []byte // of all records, as in the hint; nil once that is written; likewise

	// Guarded by Store.mu.
	hint  int64   // size of the hint file
	slots []int32 // its records in the index
	first uint64  // the lowest number of a record, 0 without any
	tags  bool    // some record has tags
	told  bool    // damage was logged
}

// Sizes of the parts of files.
const (
	segmentHeader = 32
	hintHeader    = 32
	placeSize     = 56
	sumSize       = 4
)

var (
	segmentMagic = [8]byte([]byte("weirsegm"))
	hintMagic    = [8]byte([]byte("weirhint"))
)

var errDamaged = errors.New("the file is damaged")

// A versionError is returned for a file of another version.
type versionError struct{ version uint32 }

func (e *versionError) Error() string { return fmt.Sprintf("format version %d", e.version) }

func (s *Store) segmentName(n uint32) string {
	return filepath.Join(s.o.Folder, fmt.Sprintf("%08x.segment", n))
}

func (s *Store) hintName(n uint32) string {
	return filepath.Join(s.o.Folder, fmt.Sprintf("%08x.hint", n))
}

// appendHeader appends a header of 32 bytes: magic, version, checksum, and two
// numbers.
func appendHeader(magic [8]byte, x, y uint64) []byte {
	b := append(make([]byte, 0, segmentHeader), magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, x)
	b = binary.LittleEndian.AppendUint64(b, y)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[16:], castagnoli))
	return b
}

// readHeader returns the two numbers of a header.
func readHeader(f File, magic [8]byte) (x, y uint64, err error) {
	b := make([]byte, segmentHeader)
	if _, err := f.ReadAt(b, 0); err != nil || [8]byte(b[:8]) != magic {
		return 0, 0, errDamaged
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != Version {
		return 0, 0, &versionError{v}
	}
	if binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[16:], castagnoli) {
		return 0, 0, errDamaged
	}
	return binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]), nil
}

// createSegment creates an empty segment.
func (s *Store) createSegment(number uint32) (*segment, error) {
	var mark [8]byte
	_, _ = rand.Read(mark[:]) // never fails
	g := &segment{number: number, mark: binary.LittleEndian.Uint64(mark[:]), size: segmentHeader}
	name := s.segmentName(number)
	f, err := s.o.Files.Open(name, true)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(appendHeader(segmentMagic, g.mark, uint64(number)), 0); err != nil {
		_ = f.Close()
		_ = s.o.Files.Remove(name)
		return nil, err
	}
	g.file = f
	g.users.Store(1)
	return g, nil
}

// openSegment opens a segment that exists. It reads the places of its records from
// the hint file, or from the segment, and cuts off an incomplete record at the end.
// what says what was wrong with it, if anything.
func (s *Store) openSegment(number uint32) (g *segment, what string, err error) {
	f, err := s.o.Files.Open(s.segmentName(number), false)
	if err != nil {
		return nil, "", err
	}
	g = &segment{number: number, file: f}
	g.users.Store(1)
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	mark, n, err := readHeader(f, segmentMagic)
	if err != nil {
		return nil, "", err
	}
	size, err := f.Size()
	if err != nil || uint32(n) != number || n>>32 != 0 { //nolint:gosec // compared
		return nil, "", errDamaged
	}
	g.mark = mark
	if err = s.readHint(g, size); err == nil {
		return g, "", nil
	}
	_ = s.o.Files.Remove(s.hintName(number))
	if err = g.scan(size); err != nil {
		return nil, "", err
	}
	if g.size < size {
		what = fmt.Sprintf("%d bytes at the end are no complete record and were cut off", size-g.size)
		if err = f.Truncate(g.size); err != nil {
			return nil, what, err
		}
	}
	return g, what, nil
}

// scan reads the places of g's records from the segment itself. It ends at the first
// record that is not complete. It does not search for a later one: bodies come from
// outside, and may contain anything.
func (g *segment) scan(size int64) error {
	w := window{file: g.file, size: size}
	g.size, g.places = segmentHeader, []byte{}
	for {
		b, err := w.at(g.size, fixedSize)
		if err != nil {
			return err
		}
		p, ok := readFixed(b, g.mark, uint32(g.size)) //nolint:gosec // segments are smaller
		if !ok || g.size+p.size() > size {
			return nil
		}
		if b, err = w.at(g.size, int(p.meta)); err != nil {
			return err
		}
		m, ok := readMeta(b, g.mark, p.offset)
		if !ok {
			return nil
		}
		g.places = m.append(g.places)
		g.size += m.size()
	}
}

// A window reads a file from front to back, in large parts.
type window struct {
	file File
	size int64
	buf  []byte
	from int64
}

// at returns n bytes at from, or fewer at the end of the file.
func (w *window) at(from int64, n int) ([]byte, error) {
	if skip := from - w.from; skip >= 0 && skip+int64(n) <= int64(len(w.buf)) {
		return w.buf[skip : skip+int64(n)], nil
	}
	want := min(int64(max(n, 1<<20)), w.size-from)
	if want <= 0 {
		return nil, nil
	}
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.from = w.buf[:want], from
	if _, err := w.file.ReadAt(w.buf, from); err != nil {
		w.buf = nil
		return nil, err
	}
	return w.buf[:min(int64(n), want)], nil
}

// append appends p as it is in a hint file.
func (p *place) append(b []byte) []byte {
	b = append(b, p.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, p.variant)
	b = binary.LittleEndian.AppendUint64(b, p.seq)
	b = binary.LittleEndian.AppendUint32(b, p.offset)
	b = binary.LittleEndian.AppendUint32(b, p.meta)
	b = binary.LittleEndian.AppendUint32(b, p.body)
	b = binary.LittleEndian.AppendUint32(b, p.expires)
	return append(b, p.flags, 0, 0, 0, 0, 0, 0, 0)
}

func readPlace(b []byte) place {
	return place{
		id:      id(b[:16]),
		variant: binary.LittleEndian.Uint64(b[16:]),
		seq:     binary.LittleEndian.Uint64(b[24:]),
		offset:  binary.LittleEndian.Uint32(b[32:]),
		meta:    binary.LittleEndian.Uint32(b[36:]),
		body:    binary.LittleEndian.Uint32(b[40:]),
		expires: binary.LittleEndian.Uint32(b[44:]),
		flags:   b[48],
	}
}

// writeHint writes the hint file of g, which gets no more records, and returns its
// size.
func (s *Store) writeHint(g *segment) (int64, error) {
	b := appendHeader(hintMagic, g.mark, uint64(g.size)) //nolint:gosec // not negative
	b = append(b, g.places...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(g.places, castagnoli))
	f, err := s.o.Files.Open(s.hintName(g.number), true)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteAt(b, 0)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = s.o.Files.Remove(s.hintName(g.number))
		return 0, err
	}
	return int64(len(b)), nil
}

// readHint reads the places of g's records from its hint file. size is that of the
// segment.
func (s *Store) readHint(g *segment, size int64) error {
	f, err := s.o.Files.Open(s.hintName(g.number), false)
	if err != nil {
		return err
	}
	defer f.Close()
	mark, complete, err := readHeader(f, hintMagic)
	if err != nil {
		return err
	}
	n, err := f.Size()
	if err != nil || mark != g.mark || complete != uint64(size) || //nolint:gosec // not negative
		n < hintHeader+sumSize || n > hintHeader+sumSize+size/fixedSize*placeSize || (n-hintHeader-sumSize)%placeSize != 0 {
		return errDamaged
	}
	b := make([]byte, n-hintHeader)
	if _, err = f.ReadAt(b, hintHeader); err != nil {
		return err
	}
	places, sum := b[:len(b)-sumSize], binary.LittleEndian.Uint32(b[len(b)-sumSize:])
	if crc32.Checksum(places, castagnoli) != sum {
		return errDamaged
	}
	g.places, g.size, g.hint = places, size, n
	return nil
}

// release ends one use of g.
func (g *segment) release() {
	if g.users.Add(-1) == 0 {
		_ = g.file.Close()
	}
}
