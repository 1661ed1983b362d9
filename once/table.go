package once

import (
	"cmp"
	"container/heap"
	"iter"
	"time"
)

// An entry is what a Folder knows of a record without reading it.
type entry struct {
	id        Digest
	version   uint64
	state     State
	principal Digest
	expires   time.Time
	weight    int64 // what it counts in the bounds
	at        *position
	leaving   *batch // what replaces it, or nil; guarded by Folder.mu
	index     int    // in table.order
}

// waits returns the batch that has to be written before it is known what becomes of e, or
// nil. Folder.mu must be held.
func (e *entry) waits() *batch { return cmp.Or(e.at.batch, e.leaving) }

// entryWeight is roughly the memory of an entry.
const entryWeight = 300

func newEntry(id Digest, version uint64, r *Record, at *position) *entry {
	return &entry{
		id: id, version: version, state: r.State, principal: r.Principal, expires: r.Expires,
		weight: entryWeight + at.size + r.Reserve, at: at,
	}
}

// A usage is what some entries have used.
type usage struct {
	keys  int
	bytes int64
}

// A table has the entries of a Folder, and what they use of its bounds.
type table struct {
	keys       int   // the bound
	bytes      int64 // the bound
	entries    map[Digest]*entry
	order      byExpiry
	used       usage
	states     [stateCount]int
	principals map[Digest]usage // without those that use nothing
}

func newTable(keys int, bytes int64) table {
	return table{keys: keys, bytes: bytes, entries: map[Digest]*entry{}, principals: map[Digest]usage{}}
}

// admits returns an error if there is no room for e.
func (t *table) admits(e *entry) error {
	p := t.principals[e.principal]
	switch {
	case t.used.keys+1 > t.keys, t.used.bytes+e.weight > t.bytes:
		return ErrFull
	case (p.keys+1)*Share > t.keys, (p.bytes+e.weight)*Share > t.bytes:
		return ErrShare
	}
	return nil
}

func (t *table) usage() Usage {
	return Usage{
		Keys: len(t.entries), Claimed: t.states[Claimed], Unknown: t.states[Unknown],
		MaxKeys: t.keys, Bytes: t.used.bytes, MaxBytes: t.bytes,
	}
}

func (t *table) add(e *entry) {
	t.entries[e.id] = e
	heap.Push(&t.order, e)
	t.counts(e, 1)
}

func (t *table) remove(e *entry) {
	delete(t.entries, e.id)
	heap.Remove(&t.order, e.index)
	t.counts(e, -1)
}

func (t *table) counts(e *entry, n int) {
	t.used.keys += n
	t.used.bytes += int64(n) * e.weight
	t.states[min(e.state, stateCount-1)] += n
	p := t.principals[e.principal]
	p.keys += n
	p.bytes += int64(n) * e.weight
	if t.principals[e.principal] = p; p.keys == 0 {
		delete(t.principals, e.principal)
	}
}

// oldest returns the entry that expires first, or nil.
func (t *table) oldest() *entry {
	if len(t.order) == 0 {
		return nil
	}
	return t.order[0]
}

// durable yields the entries whose frames are durable.
func (t *table) durable() iter.Seq2[*position, *entry] {
	return func(yield func(*position, *entry) bool) {
		for _, e := range t.entries {
			if e.at.batch == nil && !yield(e.at, e) {
				return
			}
		}
	}
}

// byExpiry is a heap of entries, the one that expires first on top.
type byExpiry []*entry

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h byExpiry) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *byExpiry) Push(e any) {
	own := e.(*entry)
	own.index = len(*h)
	*h = append(*h, own)
}

// Pop implements [heap.Interface].
func (h *byExpiry) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
