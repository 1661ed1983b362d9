package responses

import (
	"strings"
	"sync/atomic"
)

// A tag is a name that responses share. They point at it, so that a Get sees an
// invalidation without a lock or a look-up; that is also why an invalidation
// costs the same for one response and for a million.
type tag struct {
	name string
	hard atomic.Uint64 // number of its last invalidation, raised with Store.mu held
	soft atomic.Uint64 // of its last soft one
	used atomic.Int64  // how many responses have it; raised with Store.mu held, lowered without
}

// tagSize is what is counted for each response that has the tag: its place in
// the response, and the tag itself, as if nobody shared it; twice, as those that
// nobody uses any more are kept until there are as many of them.
func tagSize(name string) int64 {
	const tag, cell = 48, 64
	return stringSize + 8 + 2*(tag+cell+allocated(len(name)))
}

// release tells tags that a response does not have them any more.
func release(tags []*tag) {
	for _, t := range tags {
		t.used.Add(-1)
	}
}

// minTagSweep is the least number of tags at which unused ones are looked for.
const minTagSweep = 1024

// A tagTable knows the tags by their names. All of it is guarded by Store.mu.
type tagTable struct {
	seq    uint64 // number of the last invalidation, soft or not
	byName map[string]*tag
	sweep  int // at how many the unused ones are looked for
	// The last invalidations of tags that were forgotten. A fetch that began
	// before cannot know whether they were of its tags.
	hardFloor, softFloor uint64
}

// init empties the table. No write that began before may be stored after.
func (t *tagTable) init() {
	*t = tagTable{byName: map[string]*tag{}, sweep: minTagSweep}
}

// take gives r its tags, which have to be released again, unless one of them
// was invalidated after seq: then it reports false. A soft invalidation marks r.
func (t *tagTable) take(r *Stored, seq uint64) bool {
	r.seq = seq
	if len(r.Tags) == 0 {
		return true
	}
	t.forget() // before the first is added: until it is taken, nothing uses it
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
	}
	r.tags, r.Tags = tags, names
	r.soften()
	return true
}

// purge invalidates the named tags. running says whether a write is: one that
// began before may bring a tag that nobody has yet.
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
		}
	}
}

// add makes a tag. As it may have been forgotten, it counts as invalidated when
// the last of those was.
func (t *tagTable) add(name string) *tag {
	g := &tag{name: strings.Clone(name)}
	g.hard.Store(t.hardFloor)
	g.soft.Store(t.softFloor)
	t.byName[g.name] = g
	return g
}

// forget takes out the tags that no response has, if there are many: it looks at
// all, once for each doubling of their number.
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
