package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// A Record is what Put takes. Its strings and bytes must not change afterwards.
type Record struct {
	Key string
	// Variant tells apart the records of one key: a record replaces the one with the
	// same key and variant. With All set it replaces all records of its key.
	Variant string
	All     bool
	// Tags are the names by which PurgeTags removes it.
	Tags []string
	// Soft: it was expired before it was stored; see Entry.Soft.
	Soft bool
	// Expires is the time, in seconds since 1970, from which it is of no use. 0 means
	// never.
	Expires int64
	Head    []byte // at most MaxHead, with Key
	Body    []byte
}

// MaxHead is the most that key, tags and head of a record may have in bytes.
const MaxHead = 1 << 20

// maxTags is the most tags that a record may have.
const maxTags = 1024

// BlockSize is the size of the parts of a body that have a checksum each.
const BlockSize = 64 << 10

// An id stands for a key or a tag. It is a part of a SHA-256, so it is infeasible to
// find two keys with the same one.
type id [16]byte

func idOf(s string) id {
	sum := sha256.Sum256([]byte(s))
	return id(sum[:16])
}

// short is the part of an id that stands for a variant among those of one key.
func variantOf(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.LittleEndian.Uint64(sum[:8])
}

// A place is what the index and a hint file have of a record.
type place struct {
	id      id
	variant uint64
	seq     uint64 // its number: a removal with a higher one removes it
	offset  uint32 // in the segment
	meta    uint32 // size of everything before the body
	body    uint32
	expires uint32 // as in Record
	flags   uint8
}

// Flags of a place.
const (
	flagSoft   = 1 << iota // as in Record
	flagAll                // as in Record
	flagTagged             // it has tags
)

func (p *place) size() int64 { return int64(p.meta) + int64(p.body) }

// The fixed part of a record, in bytes:
//
//	0   mark of the segment, 8: random, and unknown to the senders of bodies
//	8   checksum of all that follows before the body, 4
//	12  size of all that comes before the body, 4
//	16  size of the body, 4
//	20  expires, 4
//	24  seq, 8
//	32  variant, 8
//	40  id, 16
//	56  flags, 1; a zero; number of tags, 2
//	60  size of the key, 4
//
// Then come the ids of the tags, the key, a checksum for each block of the body, the
// head, and the body.
const fixedSize = 64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func blocks(body int) int { return (body + BlockSize - 1) / BlockSize }

// metaSize returns the size of everything before the body of r.
func (r *Record) metaSize() int {
	return fixedSize + len(r.Tags)*len(id{}) + len(r.Key) + blocks(len(r.Body))*4 + len(r.Head)
}

// appendMeta appends everything before the body. p has the sizes.
func (r *Record) appendMeta(b []byte, mark uint64, p *place) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, mark)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, p.meta)
	b = binary.LittleEndian.AppendUint32(b, p.body)
	b = binary.LittleEndian.AppendUint32(b, p.expires)
	b = binary.LittleEndian.AppendUint64(b, p.seq)
	b = binary.LittleEndian.AppendUint64(b, p.variant)
	b = append(b, p.id[:]...)
	b = append(b, p.flags, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Tags))) //nolint:gosec // bounded by Put
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Key)))  //nolint:gosec // as above
	for _, tag := range r.Tags {
		t := idOf(tag)
		b = append(b, t[:]...)
	}
	b = append(b, r.Key...)
	for rest := r.Body; len(rest) > 0; {
		block := rest[:min(len(rest), BlockSize)]
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(block, castagnoli))
		rest = rest[len(block):]
	}
	b = append(b, r.Head...)
	binary.LittleEndian.PutUint32(b[at+8:], crc32.Checksum(b[at+12:], castagnoli))
	return b
}

// A meta is everything before the body, as it was read.
type meta struct {
	place
	tags []id
	key  []byte
	sums []byte // the checksums of the blocks
	head []byte
}

// readFixed reads the fixed part of the record at offset, and reports whether it can
// be one. The checksum is not verified.
func readFixed(b []byte, mark uint64, offset uint32) (p place, ok bool) {
	if len(b) < fixedSize || binary.LittleEndian.Uint64(b) != mark {
		return p, false
	}
	p = place{
		offset:  offset,
		meta:    binary.LittleEndian.Uint32(b[12:]),
		body:    binary.LittleEndian.Uint32(b[16:]),
		expires: binary.LittleEndian.Uint32(b[20:]),
		seq:     binary.LittleEndian.Uint64(b[24:]),
		variant: binary.LittleEndian.Uint64(b[32:]),
		id:      id(b[40:56]),
		flags:   b[56],
	}
	return p, p.meta >= fixedSize && p.meta <= maxMeta
}

// maxMeta bounds the part of a record before its body: head, key and tags, and the
// checksums of the largest body.
const maxMeta = fixedSize + MaxHead + (1<<30)/BlockSize*4

// readMeta reads everything before the body of the record at offset, and verifies it.
// The result refers to b.
func readMeta(b []byte, mark uint64, offset uint32) (m meta, ok bool) {
	m.place, ok = readFixed(b, mark, offset)
	if !ok || int(m.meta) > len(b) {
		return m, false
	}
	b = b[:m.meta]
	if binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return m, false
	}
	tags, key := int(binary.LittleEndian.Uint16(b[58:])), int(binary.LittleEndian.Uint32(b[60:]))
	rest := b[fixedSize:]
	sums := blocks(int(m.body)) * 4
	if tags*len(id{})+key+sums > len(rest) || tags*len(id{})+key+sums < 0 {
		return m, false
	}
	for range tags {
		m.tags, rest = append(m.tags, id(rest[:16])), rest[16:]
	}
	m.key, rest = rest[:key], rest[key:]
	m.sums, m.head = rest[:sums], rest[sums:]
	return m, true
}

// verify reports whether block is the block with that number.
func (m *meta) verify(number int, block []byte) bool {
	return binary.LittleEndian.Uint32(m.sums[4*number:]) == crc32.Checksum(block, castagnoli)
}
