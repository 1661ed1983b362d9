package responses

import (
	"strings"
	"sync/atomic"
)

// A tag is a name that responses share. Responses point at their tags, so a Get
// sees an invalidation without a lock or a lookup. For the same reason, an
// invalidation costs the same for one response as for a million.
type tag struct {
	name string
	hard atomic.Uint64 // sequence number of its last invalidation, raised with Store.mu held
	soft atomic.Uint64 // the same for the last soft one
	used atomic.Int64  // the number of responses that have it; raised with Store.mu held, lowered without
	// live is used without those that an invalidation of the tag has outdated. If they are
	// removed during an invalidation, it can become too low: it is only reported.
	live atomic.Int64
}

// tagSize returns the bytes counted for each response that has the tag: its slot
// in the response, and the tag itself, as if it were not shared. The tag counts
// twice, because unused tags are kept until they are as many as the used ones.
func tagSize(name string) int64 {
	const tag, cell = 48, 64
	return stringSize + 8 + 2*(tag+cell+allocated(len(name)))
}

// release records that r no longer uses its tags.
func (r *Stored) release() {
	for _, t := range r.tags {
		t.used.Add(-1)
		if t.hard.Load() <= r.seq {
			t.live.Add(-1)
		}
	}
}

// minTagSweep is the smallest number of tags at which unused ones are removed.
const minTagSweep = 1024

// A tagTable maps names to tags. All of it is guarded by Store.mu.
type tagTable struct {
	seq    uint64 // number of the last invalidation, soft or hard
	byName map[string]*tag
	sweep  int // the number of tags at which unused ones are removed next
	// The last invalidations of removed tags. A fetch that began before these
	// cannot tell whether they affected its tags.
	hardFloor, softFloor uint64
}

// init empties the table. No write that began before may be stored afterwards.
func (t *tagTable) init() {
	*t = tagTable{byName: map[string]*tag{}, sweep: minTagSweep}
}

// take assigns r its tags, which have to be released later. If one of them was
// invalidated after seq, it returns false instead. A soft invalidation marks r.
func (t *tagTable) take(r *Stored, seq uint64) bool {
	r.seq = seq
	if len(r.Tags) == 0 {
		return true
	}
	t.forget() // before the first add: an added tag is unused until the end of take
	tags, names := make([]*tag, len(r.Tags)), make([]string, len(r.Tags))
	for i, name := range r.Tags {
		g := t.byName[name]
		if g == nil {
			g = t.add(name)
		}
		tags[i], names[i] = g, g.name
		if g.hard.Load() > seq {
			return false
		}
	}
	for _, g := range tags {
		g.used.Add(1)
		g.live.Add(1)
	}
	r.tags, r.Tags = tags, names
	r.soften()
	return true
}

// purge invalidates the named tags. running reports whether any write is running:
// such a write may bring a tag that no response has yet.
func (t *tagTable) purge(soft bool, names []string, running bool) {
	t.seq++
	t.forget()
	for _, name := range names {
		g := t.byName[name]
		if g == nil {
			if !running {
				continue
			}
			g = t.add(name)
		}
		if soft {
			g.soft.Store(t.seq)
		} else {
			g.hard.Store(t.seq)
			g.live.Store(0)
		}
	}
}

// add creates a tag. The tag may have existed and been removed, so it starts with
// the last invalidation of all removed tags.
func (t *tagTable) add(name string) *tag {
	g := &tag{name: strings.Clone(name)}
	g.hard.Store(t.hardFloor)
	g.soft.Store(t.softFloor)
	t.byName[g.name] = g
	return g
}

// forget removes the tags that no response has, once there are many. It examines
// all tags, once for each doubling of their number.
func (t *tagTable) forget() {
	if len(t.byName) < t.sweep {
		return
	}
	for name, g := range t.byName {
		if g.used.Load() > 0 {
			continue
		}
		t.hardFloor = max(t.hardFloor, g.hard.Load())
		t.softFloor = max(t.softFloor, g.soft.Load())
		delete(t.byName, name)
	}
	t.sweep = max(minTagSweep, 2*len(t.byName))
}
