package disk

import (
	"encoding/binary"
	"hash/crc32"
)

// A removal removes, or expires, the records that it affects and whose number is
// lower than its own.
type removal struct {
	what
	seq uint64
}

// A what says which records a removal affects.
type what struct {
	kind    uint8
	id      id     // of the key or the tag, or zero
	variant uint64 // for ofVariant
}

// removal removes p, and with it the records that p replaced: the file that has p may
// lose it, and keep those.
func (p *place) removal() removal {
	w := what{kind: ofVariant, id: p.id, variant: p.variant}
	if p.flags&flagAll != 0 {
		w = what{kind: ofKey, id: p.id}
	}
	return removal{w, p.seq + 1}
}

// Kinds of removals. The soft ones expire.
const (
	ofKey = 1 + iota
	softKey
	ofVariant
	ofTag
	softTag
	ofAll
	softAll
	ofTagged // all records with tags: it stands for tags that are no longer known
	softTagged
	kinds
)

func (w what) byTag() bool { return w.kind == ofTag || w.kind == softTag }

// A removal in the log has a fixed size: a checksum of the rest in 4 bytes, the kind
// in 4, the number in 8, the id in 16, the variant in 8.
const removalSize = 40

func (r removal) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, r.kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = append(b, r.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, r.variant)
	binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

func readRemoval(b []byte) (r removal, ok bool) {
	r.kind, r.seq = b[4], binary.LittleEndian.Uint64(b[8:])
	r.id, r.variant = id(b[16:32]), binary.LittleEndian.Uint64(b[32:])
	return r, crc32.Checksum(b[4:removalSize], castagnoli) == binary.LittleEndian.Uint32(b) && r.kind > 0 && r.kind < kinds
}

// removals holds the number of the last removal of each kind.
type removals map[what]uint64

func (m removals) add(r removal) { m[r.what] = max(m[r.what], r.seq) }

// whole returns what removals of everything do to a record.
func (m removals) whole(p *place) (dead, soft bool) {
	tagged := p.flags&flagTagged != 0
	dead = m[what{kind: ofAll}] > p.seq || tagged && m[what{kind: ofTagged}] > p.seq
	soft = m[what{kind: softAll}] > p.seq || tagged && m[what{kind: softTagged}] > p.seq
	return dead, soft
}

// tagged returns what removals by tag do to a record.
func (m removals) tagged(p *place, tags []id) (dead, soft bool) {
	for _, t := range tags {
		dead = dead || m[what{kind: ofTag, id: t}] > p.seq
		soft = soft || m[what{kind: softTag, id: t}] > p.seq
	}
	return dead, soft
}

// keyed returns what removals by key do to a record.
func (m removals) keyed(p *place) (dead, soft bool) {
	dead = m[what{kind: ofKey, id: p.id}] > p.seq || m[what{kind: ofVariant, id: p.id, variant: p.variant}] > p.seq
	return dead, m[what{kind: softKey, id: p.id}] > p.seq
}

// tagRemovals is the most tags whose last removal is known. Beyond it, all records
// with tags that are older are removed.
func (o Options) tagRemovals() int { return int(min(65536, o.logBytes()/4/removalSize)) }

// trim drops the removals that affect no record with a number above first, and turns
// those by tag into one if there are more than most.
func (m removals) trim(first uint64, most int) {
	tags := 0
	for w, seq := range m {
		switch {
		case seq <= first:
			delete(m, w)
		case w.byTag():
			tags++
		}
	}
	if tags <= most {
		return
	}
	for w, seq := range m {
		if w.byTag() {
			kind := uint8(ofTagged)
			if w.kind == softTag {
				kind = softTagged
			}
			m.add(removal{what{kind: kind}, seq})
			delete(m, w)
		}
	}
}
