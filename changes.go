package weir

import "hash/maphash"

// changes records which keys and tags were set, invalidated or expired since New, so
// that Restore does not bring back what came before. It has a bit for each hash: it may
// report a change of a key that had none, which costs a load, but never misses one.
// The table's lock guards it. It takes 8 KiB from the first change on.
type changes[K comparable] struct {
	seed maphash.Seed
	bits []uint64
}

const changeBits = 1 << 16

// spot returns the word and the bit of a hash.
func spot(hash uint64) (word int, bit uint64) {
	hash %= changeBits
	return int(hash / 64), 1 << (hash % 64) //nolint:gosec // bounded
}

func (c *changes[K]) note(hash func() uint64) {
	if c.bits == nil {
		c.seed, c.bits = maphash.MakeSeed(), make([]uint64, changeBits/64)
	}
	word, bit := spot(hash())
	c.bits[word] |= bit
}

func (c *changes[K]) have(hash func() uint64) bool {
	if c.bits == nil {
		return false
	}
	word, bit := spot(hash())
	return c.bits[word]&bit != 0
}

// noteKey records a change of key, and haveKey reports whether there may have been one.
func (c *changes[K]) noteKey(key K) {
	c.note(func() uint64 { return maphash.Comparable(c.seed, key) })
}

func (c *changes[K]) haveKey(key K) bool {
	return c.have(func() uint64 { return maphash.Comparable(c.seed, key) })
}

// noteTag and haveTags do the same for tags.
func (c *changes[K]) noteTag(name string) {
	c.note(func() uint64 { return maphash.String(c.seed, "tag "+name) })
}

func (c *changes[K]) haveTags(names []string) bool {
	for _, name := range names {
		if c.have(func() uint64 { return maphash.String(c.seed, "tag "+name) }) {
			return true
		}
	}
	return false
}

// noteLocked records a change of key for Restore, which a Guard in a fleet does not
// have. The table's lock must be held.
func (g *Guard[K, V]) noteLocked(key K) {
	if g.fleet == nil {
		g.changes.noteKey(key)
	}
}
