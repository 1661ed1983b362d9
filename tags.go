package weir

import (
	"context"
	"slices"
	"sync/atomic"
)

// A tag is a name that entries share. Entries point at it, so that a Get sees
// an invalidation without a lock or a look-up; that is also why an
// invalidation costs the same for one entry and for a million.
type tag struct {
	name string
	seq  atomic.Uint64 // number of its last invalidation
}

// minTagSweep is the least number of tags at which unused ones are looked for.
const minTagSweep = 1024

// InvalidateTags removes all entries that carry one of the tags, and beats
// loads that are running: one that began before and brings an entry with such
// a tag stores nothing. Which tags it will bring is not known until it ends, so
// callers who come after the invalidation join it, and load again if it turns
// out to be overtaken.
//
// It returns ErrClosed after Close. In a fleet it is done for all if the error is
// nil, as with [Guard.Invalidate]. A tag that is empty is ErrTag there.
func (g *Guard[K, V]) InvalidateTags(ctx context.Context, tags ...string) error {
	if g.team != nil && slices.Contains(tags, "") {
		return ErrTag // there it stands for all
	}
	unshared := g.tagsInFleet(ctx, tags...)
	return joined(unshared, g.invalidateTags(tags...))
}

// invalidateTags is InvalidateTags for this instance.
func (g *Guard[K, V]) invalidateTags(tags ...string) error {
	g.flights.Lock()
	defer g.flights.Unlock()
	if g.closed.Load() {
		return ErrClosed
	}
	g.seq++
	g.sweepTagsLocked()
	for _, name := range tags {
		t := g.tags[name]
		if t == nil && g.flights.RunningLocked() == 0 {
			continue // no entry has it, and no load can bring one
		}
		if t == nil {
			t = g.addTagLocked(name)
		}
		t.seq.Store(g.seq)
	}
	return nil
}

// internLocked returns the tags of the given names. The table's lock must be
// held.
func (g *Guard[K, V]) internLocked(names []string) []*tag {
	if len(names) == 0 {
		return nil
	}
	g.sweepTagsLocked() // before the first is added: until its entry is stored, nothing uses it
	tags := make([]*tag, len(names))
	for i, name := range names {
		if tags[i] = g.tags[name]; tags[i] == nil {
			tags[i] = g.addTagLocked(name)
		}
	}
	return tags
}

// addTagLocked makes a tag. A load that began before the last sweep cannot know
// what happened to a tag that was forgotten then, so a new tag counts as
// invalidated at that sweep. The table's lock must be held.
func (g *Guard[K, V]) addTagLocked(name string) *tag {
	t := &tag{name: name}
	t.seq.Store(g.tagFloor)
	g.tags[name] = t
	return t
}

// sweepTagsLocked forgets the tags that no entry has, if there are many. It
// looks at every entry, once for each doubling of the number of tags. The
// table's lock must be held.
func (g *Guard[K, V]) sweepTagsLocked() {
	if len(g.tags) < g.tagSweep {
		return
	}
	used := make(map[*tag]bool)
	for e := range g.store.Values() {
		if e.extra != nil {
			for _, t := range e.extra.tags {
				used[t] = true
			}
		}
	}
	for name, t := range g.tags {
		if !used[t] {
			delete(g.tags, name)
		}
	}
	g.tagFloor = g.seq
	g.tagSweep = max(minTagSweep, 2*len(g.tags))
}

// setTags gives e its tags, and the count of invalidations that they must be
// newer than to outdate it, before it is stored.
func (e *entry[V]) setTags(tags []*tag, seq uint64) {
	if len(tags) == 0 {
		return
	}
	if e.extra == nil {
		e.extra = &extra{}
	}
	e.extra.tags, e.extra.seq = tags, seq
}

func tagNames(tags []*tag) []string {
	names := make([]string, len(tags))
	for i, t := range tags {
		names[i] = t.name
	}
	return names
}
