package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
)

// The format of a block file is a list of records. Each has a head of headSize bytes
// (length, sequence, time, length of the subject), the subject, the headers preceded
// by their length, the data, and a checksum of sumSize bytes.
const (
	headSize  = 22
	sumSize   = 8
	headerBit = 1 << 31 // in the length: the record has headers
	erasedBit = 1 << 63 // in the sequence
	tombBit   = 1 << 62 // in the sequence: the message was removed
	maxRecord = 32 << 20
)

// A record is one entry of a block file.
type record struct {
	seq     uint64
	time    int64 // ns
	subject string
	header  []byte
	data    []byte
	tomb    bool // records the removal of seq
	erased  bool
	off     int // offset in its block
	size    int
}

// sums returns the checksum function of one block file.
func sums(stream string, index int) hash.Hash64 { return sumOf(fmt.Sprintf("%s-%d", stream, index)) }

// sumOf returns the server's checksum function for something with this name.
func sumOf(name string) hash.Hash64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic("disk: " + err.Error()) // unreachable: the key has the right length
	}
	return h
}

// parse parses the record at off of a block. If the block ends before the record
// does, short is true. ok is false in that case, and for anything that is not a
// complete record.
func parse(b []byte, off int, h hash.Hash64) (r record, short bool, ok bool) {
	le := binary.LittleEndian
	if off+headSize > len(b) {
		return r, true, false
	}
	head := b[off : off+headSize]
	length, subject := le.Uint32(head), int(le.Uint16(head[20:]))
	headers := length&headerBit != 0
	size := int(length &^ headerBit)
	least := headSize + subject + sumSize
	if headers {
		least += 4
	}
	if size < least || size > maxRecord+(1<<20) {
		return r, false, false
	}
	if off+size > len(b) {
		return r, true, false
	}
	body := b[off+headSize : off+size-sumSize]
	r = record{seq: le.Uint64(head[4:]), time: int64(le.Uint64(head[12:])), subject: string(body[:subject]), off: off, size: size}
	rest := body[subject:]
	h.Reset()
	h.Write(head[4:20])
	h.Write(body[:subject])
	if headers {
		n := int(le.Uint32(rest))
		if rest = rest[4:]; n < 0 || n > len(rest) {
			return r, false, false
		}
		r.header, rest = rest[:n], rest[n:]
		h.Write(r.header)
	}
	r.data = rest
	h.Write(rest)
	if h.Sum64() != le.Uint64(b[off+size-sumSize:]) {
		return r, false, false
	}
	r.tomb, r.erased = r.seq&tombBit != 0, r.seq&erasedBit != 0
	r.seq &^= tombBit | erasedBit
	return r, false, true
}

// encode appends a record to b.
func encode(b []byte, r record, h hash.Hash64) []byte {
	le := binary.LittleEndian
	size := headSize + len(r.subject) + len(r.data) + sumSize
	length := uint32(size)
	if len(r.header) > 0 {
		size += 4 + len(r.header)
		length = uint32(size) | headerBit
	}
	seq := r.seq
	if r.tomb {
		seq |= tombBit
	}
	at := len(b)
	b = le.AppendUint32(b, length)
	b = le.AppendUint64(b, seq)
	b = le.AppendUint64(b, uint64(r.time))
	b = le.AppendUint16(b, uint16(len(r.subject)))
	b = append(b, r.subject...)
	if len(r.header) > 0 {
		b = le.AppendUint32(b, uint32(len(r.header)))
		b = append(b, r.header...)
	}
	b = append(b, r.data...)
	h.Reset()
	h.Write(b[at+4 : at+20])
	h.Write([]byte(r.subject))
	h.Write(r.header)
	h.Write(r.data)
	return le.AppendUint64(b, h.Sum64())
}

// A hole is a part of a block file that is not a record.
type hole struct {
	off, size int
	last      bool // no record follows
}

// scan calls f for each record of a block, and returns the holes between them. After
// a hole it continues at the next place with the valid checksum of a record.
func scan(b []byte, stream string, index int, f func(record)) (holes []hole) {
	h := sums(stream, index)
	for off := 0; off < len(b); {
		r, _, ok := parse(b, off, h)
		if ok {
			f(r)
			off += r.size
			continue
		}
		next := resync(b, off, h)
		holes = append(holes, hole{off, next - off, next == len(b)})
		off = next
	}
	return holes
}

// resync returns the offset of the next record after off, or the end of the block. It
// tries the length of the damaged record first, because most damage is outside the
// length.
func resync(b []byte, off int, h hash.Hash64) int {
	if off+4 <= len(b) {
		size := int(binary.LittleEndian.Uint32(b[off:]) &^ headerBit)
		if size >= headSize+sumSize && off+size < len(b) {
			if _, _, ok := parse(b, off+size, h); ok {
				return off + size
			}
		}
	}
	for next := off + 1; next+headSize+sumSize <= len(b); next++ {
		if !plausible(b, next) {
			continue
		}
		if _, _, ok := parse(b, next, h); ok {
			return next
		}
	}
	return len(b)
}

// plausible rules out most offsets without computing a checksum: the record must fit,
// and its subject must be empty or one of weir's.
func plausible(b []byte, off int) bool {
	le := binary.LittleEndian
	length, subject := le.Uint32(b[off:]), int(le.Uint16(b[off+20:]))
	size := int(length &^ headerBit)
	if size < headSize+subject+sumSize || off+size > len(b) {
		return false
	}
	if subject == 0 {
		return size == headSize+sumSize
	}
	return subject < 512 && b[off+headSize] > ' ' && b[off+headSize] < 0x7f
}
