package weir

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordOverhead is what a record has besides its payload: the length and the checksum.
const recordOverhead = 4 + 4

// A snapshotWriter writes the records of a snapshot. After the first error it writes
// nothing.
type snapshotWriter struct {
	w   *bufio.Writer
	sum uint32
	err error
}

func (o *snapshotWriter) record(payload []byte) {
	o.sum = crc32.Update(o.sum, castagnoli, payload)
	length := uint32(len(payload)) //nolint:gosec // bounded
	for _, b := range [][]byte{
		binary.BigEndian.AppendUint32(nil, length), payload, binary.BigEndian.AppendUint32(nil, o.sum),
	} {
		if o.err == nil {
			_, o.err = o.w.Write(b)
		}
	}
}

// A snapshotReader reads and verifies the records.
type snapshotReader struct {
	r    *bufio.Reader
	sum  uint32
	left int64 // bytes that may still be read
}

// head reads the start, up to the first record, which it returns.
func (in *snapshotReader) head() ([]byte, error) {
	var start [len(snapshotMagic) + 1]byte
	if _, err := io.ReadFull(in.r, start[:]); err != nil {
		return nil, torn(err)
	}
	if string(start[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrSnapshot, snapshotMagic)
	}
	if v := start[len(snapshotMagic)]; v != snapshotVersion {
		return nil, fmt.Errorf("%w: it has version %d of the format; this program reads version %d", ErrSnapshot, v, snapshotVersion)
	}
	b, err := in.next()
	if err == nil && b[0] != snapshotHead {
		err = fmt.Errorf("%w: it has no head", ErrSnapshot)
	}
	return b, err
}

// next returns the next record, which has at least one byte.
func (in *snapshotReader) next() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in.r, length[:]); err != nil {
		return nil, torn(err)
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if n == 0 || n > MaxSnapshotEntry {
		return nil, fmt.Errorf("%w: a record has %d bytes; 1 to %d are allowed", ErrSnapshot, n, MaxSnapshotEntry)
	}
	if in.left -= n + recordOverhead; in.left < 0 {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrSnapshot, MaxSnapshotBytes)
	}
	payload, err := readAll(in.r, int(n))
	if err != nil {
		return nil, torn(err)
	}
	var sum [4]byte
	if _, err := io.ReadFull(in.r, sum[:]); err != nil {
		return nil, torn(err)
	}
	if in.sum = crc32.Update(in.sum, castagnoli, payload); in.sum != binary.BigEndian.Uint32(sum[:]) {
		return nil, fmt.Errorf("%w: a checksum is wrong", ErrSnapshot)
	}
	return payload, nil
}

// readAll reads n bytes. A damaged length does not make it allocate much more than
// there is to read.
func readAll(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	b := make([]byte, 0, min(n, step))
	for len(b) < n {
		from := len(b)
		b = append(b, make([]byte, min(n-from, step))...)
		if _, err := io.ReadFull(r, b[from:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// torn returns the error for a snapshot that ends too early, or cannot be read.
func torn(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // readers return them as they are
		return fmt.Errorf("%w: it is torn: %w", ErrSnapshot, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("weir: reading a snapshot: %w", err)
}
