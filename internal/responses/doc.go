// Package responses stores HTTP responses, bounded by bytes. Everything the store
// keeps counts: bodies, fields, keys, and the structures around them. The buffers
// of flights count too.
//
// One entry of the underlying cache holds all variants of a key, as a list that
// is never modified, only replaced as a whole. So a hit is one lookup and a
// comparison, without a lock. Every change takes the store's only lock. Evictions
// happen outside it, and only ever make room.
//
// The underlying cache chooses which entries to evict (W-TinyLFU, by frequency
// and recency). It does not enforce the bound: it evicts on a separate goroutine,
// and a burst outruns it. So the store keeps a count of its own, and admits
// nothing that the bound does not cover; see [Store.Reserve] and room.go.
//
// With a disk ([Store.AttachDisk]), every decision about what is stored also goes to
// the disk, under the same lock and so in the same order. Get does not look there: the
// caller does, once it has found nothing here; see [Store.OnDisk] and [Write.Promote].
package responses
