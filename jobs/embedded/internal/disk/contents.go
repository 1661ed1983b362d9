package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// contents is what a ledger records.
type contents struct {
	messages map[key]message // the latest per key
	last     uint64
	at       time.Time // time of the last frame
	size     int64     // size of the part that could be read
	damaged  bool      // an unreadable frame is followed by readable ones
	numbers  map[string]uint64
	ended    map[uint64]bool // sequences of items whose jobs are over; written by prune
}

func newContents() *contents {
	return &contents{messages: map[key]message{}, numbers: map[string]uint64{}, size: int64(ledgerHead), ended: map[uint64]bool{}}
}

// maxLedger bounds how much of a ledger is read.
const maxLedger = 4 << 30

// readLedger reads a ledger. Its error is ErrNewer, or an error of reading the file.
func readLedger(path string) (*contents, error) {
	b, err := readFile(path, maxLedger)
	if err != nil {
		return nil, err
	}
	return decodeLedger(path, b)
}

// decodeLedger decodes the bytes of a ledger.
func decodeLedger(path string, b []byte) (*contents, error) {
	c := newContents()
	switch {
	case len(b) < ledgerHead || string(b[:len(ledgerMagic)]) != ledgerMagic:
		c.damaged = true
		return c, nil
	case b[len(ledgerMagic)] > ledgerVersion:
		return nil, fmt.Errorf("%s: %w: format %d; this program reads %d", path, ErrNewer, b[len(ledgerMagic)], ledgerVersion)
	}
	names := map[uint64]string{}
	for off := ledgerHead; off < len(b); {
		size, ok := frameAt(b, off)
		if !ok {
			next := off + 1
			for ; next < len(b); next++ {
				if n := frameSize(b, next); n > 0 && n <= maxFrame {
					if _, ok := frameAt(b, next); ok {
						break
					}
				}
			}
			if next == len(b) {
				break // the frame was cut short
			}
			c.damaged = true
			off = next
			continue
		}
		if err := c.read(b[off+8:off+size], names); err != nil {
			c.damaged = true
		}
		off += size
		c.size = int64(off)
	}
	for n, name := range names {
		c.numbers[name] = n
	}
	return c, nil
}

// frameSize returns the size that a frame at off would have, or 0 if there is none.
func frameSize(b []byte, off int) int {
	if off+8 > len(b) {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(b[off:]))
	if n < 3 || n > len(b)-off-8 {
		return 0
	}
	return n + 8
}

// frameAt returns the size of the frame at off.
func frameAt(b []byte, off int) (size int, ok bool) {
	size = frameSize(b, off)
	if size == 0 {
		return 0, false
	}
	return size, crc32.Checksum(b[off+8:off+size], castagnoli) == binary.LittleEndian.Uint32(b[off+4:])
}

var errEntry = errors.New("an entry cannot be read")

// read reads the entries of a frame.
func (c *contents) read(b []byte, names map[uint64]string) error {
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	instant := func() time.Time {
		v, n := binary.Varint(b)
		if n <= 0 {
			bad = true
			return time.Time{}
		}
		b = b[n:]
		return time.UnixMilli(v)
	}
	for len(b) > 0 && !bad {
		what := b[0]
		b = b[1:]
		switch what {
		case entryQueue:
			n, size := number(), number()
			if bad || size > uint64(len(b)) {
				return errEntry
			}
			names[n], b = string(b[:size]), b[size:]
		case entryLast:
			last, at := number(), instant()
			c.last, c.at = max(c.last, last), at
		case byte(work), byte(state), byte(terminal):
			m := message{kind: kind(what)}
			m.queue, m.state = names[number()], kind(what) != work
			if bad || len(b) < len(m.id) {
				return errEntry
			}
			b = b[copy(m.id[:], b):]
			m.seq, m.time = number(), instant()
			if ttl := number(); ttl > 0 {
				m.expires = m.time.Add(time.Duration(ttl-1) * time.Second)
			}
			if !bad {
				c.put(m)
			}
		default:
			return errEntry
		}
	}
	if bad {
		return errEntry
	}
	return nil
}

// put records a message, unless a later one has the same key.
func (c *contents) put(m message) {
	if old, there := c.messages[m.key]; !there || old.seq <= m.seq {
		c.messages[m.key] = m
	}
}

// over reports whether a work item belongs to a finished job: a terminal state
// follows it.
func (c *contents) over(m message) bool {
	s, there := c.messages[key{m.queue, m.id, true}]
	return there && s.kind == terminal && s.seq > m.seq
}

// prune drops messages that may legitimately be missing from the stream.
func (c *contents) prune(now time.Time) {
	for k, m := range c.messages {
		if m.kind == work && c.over(m) {
			c.ended[m.seq] = true
			delete(c.messages, k)
		}
	}
	for k, m := range c.messages {
		if m.gone(now) {
			delete(c.messages, k)
		}
	}
}
