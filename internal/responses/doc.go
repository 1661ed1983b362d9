// Package responses is a store of HTTP responses that is bounded by bytes. What
// counts is everything it keeps: bodies, fields, keys, and what the structures
// around them take; and what flights hold in buffers.
//
// One entry of the cache below holds all variants of a key, as a list that is
// never changed but replaced as a whole. So a hit is one look-up and a
// comparison, without a lock. Everything that changes something takes the
// store's one lock; evictions happen outside of it and only ever make room.
//
// Which entries go is the business of the cache below (W-TinyLFU, by frequency
// and recency). That the bound holds is not: it evicts on a goroutine of its
// own, and a burst outruns it. So the store counts by itself, and lets nothing
// in that is not covered, see [Store.Reserve] and room.go.
package responses
