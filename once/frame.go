package once

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
)

// A frame is a part of the file of a Folder: a record, the end of one, or the mark at the
// start of a write. Numbers are big-endian.
//
//	 0  magic
//	 4  CRC-32C of all that follows
//	 8  kind
//	 9  ID
//	41  version; of a mark, its position in the file
//	49  length of the record without its body, as JSON
//	53  length of the body
//	57  both
const frameHead = 57

const (
	frameMagic = "wOn1"
	// maxFrame bounds what is read for one frame.
	maxFrame = 64 << 20
)

const (
	kindPut    = 'P'
	kindDelete = 'D'
	// kindMark: everything before it was durable when it was written.
	kindMark = 'M'
)

// errDamaged means that there is no valid frame.
var errDamaged = errors.New("once: a damaged frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type frame struct {
	kind    byte
	id      Digest
	version uint64
	size    int64
	record  *Record // nil unless the kind is kindPut
}

// A recordMeta is a record without its body. Fields are bytes, because JSON would change a
// value that is not UTF-8.
type recordMeta struct {
	*Record
	Header  map[string][][]byte `json:"header,omitempty"`
	Trailer map[string][][]byte `json:"trailer,omitempty"`
}

func linesOf(h http.Header) map[string][][]byte { return converted[string, []byte](h) }

// converted returns fields with lines of another type.
func converted[From, To string | []byte](fields map[string][]From) map[string][]To {
	if fields == nil {
		return nil
	}
	out := make(map[string][]To, len(fields))
	for name, lines := range fields {
		var own []To
		for _, line := range lines {
			own = append(own, To(line))
		}
		out[name] = own
	}
	return out
}

// appendFrame appends a frame with r, or with the end of the record if r is nil.
func appendFrame(b []byte, id Digest, version uint64, r *Record) ([]byte, error) {
	if r == nil {
		return appendRaw(b, kindDelete, id, version, nil, nil), nil
	}
	meta, err := json.Marshal(recordMeta{r, linesOf(r.Header), linesOf(r.Trailer)})
	if err != nil {
		return b, err
	}
	return appendRaw(b, kindPut, id, version, meta, r.Body), nil
}

// appendMark appends a mark for the position at.
func appendMark(b []byte, at int64) []byte {
	return appendRaw(b, kindMark, Digest{}, uint64(at), nil, nil) //nolint:gosec // never negative
}

func appendRaw(b []byte, kind byte, id Digest, version uint64, meta, body []byte) []byte {
	from := len(b)
	b = append(b, frameMagic...)
	b = append(b, 0, 0, 0, 0, kind)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint64(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(meta))) //nolint:gosec // bounded by Policy
	b = binary.BigEndian.AppendUint32(b, uint32(len(body))) //nolint:gosec // as above
	b = append(append(b, meta...), body...)
	binary.BigEndian.PutUint32(b[from+4:], crc32.Checksum(b[from+8:], castagnoli))
	return b
}

// readFrame reads the frame at at, which ends at end at the latest.
func readFrame(r io.ReaderAt, at, end int64) (fr frame, err error) {
	var head [frameHead]byte
	if end-at < frameHead {
		return fr, errDamaged
	}
	if _, err := r.ReadAt(head[:], at); err != nil {
		return fr, err
	}
	meta, body := int64(binary.BigEndian.Uint32(head[49:])), int64(binary.BigEndian.Uint32(head[53:]))
	fr.size = frameHead + meta + body
	if string(head[:4]) != frameMagic || fr.size > min(end-at, maxFrame) {
		return fr, errDamaged
	}
	rest := make([]byte, meta+body)
	if _, err := r.ReadAt(rest, at+frameHead); err != nil && (err != io.EOF || len(rest) > 0) {
		return fr, err
	}
	if crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, rest) != binary.BigEndian.Uint32(head[4:]) {
		return fr, errDamaged
	}
	fr.kind, fr.id, fr.version = head[8], Digest(head[9:]), binary.BigEndian.Uint64(head[41:])
	if fr.kind == kindPut {
		m := recordMeta{Record: new(Record)}
		if err := json.Unmarshal(rest[:meta], &m); err != nil {
			return fr, errDamaged
		}
		fr.record = m.Record
		fr.record.Header, fr.record.Trailer = converted[[]byte, string](m.Header), converted[[]byte, string](m.Trailer)
		fr.record.Body = rest[meta:]
	}
	return fr, nil
}

// markAfter returns the position of a mark behind at, or -1. If there is one, all before it
// was durable, so that damage at at is not the rest of a write that a crash cut off.
func markAfter(r io.ReaderAt, at, end int64) (int64, error) {
	buf := make([]byte, 1<<20)
	for at < end {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		for i := 0; ; i++ {
			next := bytes.Index(buf[i:n], []byte(frameMagic))
			if next < 0 {
				break
			}
			i += next
			fr, err := readFrame(r, at+int64(i), end)
			if err == nil && fr.kind == kindMark && fr.version == uint64(at)+uint64(i) { //nolint:gosec // never negative
				return at + int64(i), nil
			}
		}
		if at += int64(n); at < end {
			at -= int64(len(frameMagic)) - 1 // it may lie across the two parts
		}
		if n < len(frameMagic) {
			break
		}
	}
	return -1, nil
}
