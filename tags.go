package weir

import (
	"context"
	"slices"
	"sync/atomic"
)

// A tag is a name that entries share. Entries point at it, so a Get sees an
// invalidation without a lock or a lookup, and an invalidation costs the same
// for one entry as for a million.
type tag struct {
	name    string
	seq     atomic.Uint64 // number of its last invalidation
	expired uint64        // guarded by the table's lock: number of its last ExpireTags
}

// minTagSweep is the smallest number of tags at which unused ones are swept, and
// maxIdleTags is how many of those a sweep keeps for the loads that run.
const (
	minTagSweep = 1024
	maxIdleTags = 1 << 16
)

// InvalidateTags removes all entries that carry one of the tags, and beats
// loads that are running: one that began before and returns an entry with such
// a tag stores nothing. Its tags are not known until it ends, so callers that
// come after the invalidation join it, and load again if it was overtaken.
//
// Like [Guard.Invalidate] it applies to the whole fleet if the error is nil,
// and returns ErrClosed after Close. In a fleet an empty tag is ErrTag.
func (g *Guard[K, V]) InvalidateTags(ctx context.Context, tags ...string) error {
	if g.fleet != nil && slices.Contains(tags, "") {
		return ErrTag // there it stands for all
	}
	unshared := g.tagsInFleet(ctx, tags...)
	err := g.invalidateTags(tags...)
	if len(tags) == 0 {
		return joined(unshared, err)
	}
	return g.changedTags(ctx, EventInvalidated, tags, unshared, err)
}

// invalidateTags is InvalidateTags for this instance.
func (g *Guard[K, V]) invalidateTags(tags ...string) error {
	return g.change(func() { g.eachTagLocked(tags, func(t *tag) { t.seq.Store(g.seq) }) })
}

// ExpireTags ends the freshness of all entries that carry one of the tags, as
// [Guard.Expire] does for keys, and takes precedence over running loads, as
// [Guard.InvalidateTags] does. Unlike InvalidateTags it looks at every entry in
// memory.
func (g *Guard[K, V]) ExpireTags(ctx context.Context, tags ...string) error {
	if g.fleet != nil && slices.Contains(tags, "") {
		return ErrTag // there it stands for all
	}
	unshared := g.expireInFleet(ctx, tags...)
	err := g.expireTags(tags...)
	if len(tags) == 0 {
		return joined(unshared, err)
	}
	return g.changedTags(ctx, EventExpired, tags, unshared, err)
}

// expireTags is ExpireTags for this instance. It overtakes running loads first:
// an entry that one stored after the pass over memory would stay fresh.
func (g *Guard[K, V]) expireTags(tags ...string) error {
	var seq uint64
	some := make(map[*tag]bool)
	if err := g.change(func() {
		g.eachTagLocked(tags, func(t *tag) { t.expired = g.seq; some[t] = true })
		seq = g.seq
	}); err != nil {
		return err
	}
	g.eachEntry(func(e *entry[V]) bool {
		return e.extra != nil && e.extra.seq < seq && slices.ContainsFunc(e.extra.tags, func(t *tag) bool { return some[t] })
	}, func(e *entry[V], now instant) *entry[V] { return e.expired(now) })
	return nil
}

// eachTagLocked counts one more change of tags, and calls fn for each tag that an
// entry has or a load may return. The table's lock must be held.
func (g *Guard[K, V]) eachTagLocked(tags []string, fn func(*tag)) {
	g.seq++
	g.sweepTagsLocked()
	for _, name := range tags {
		if g.fleet == nil {
			g.changes.noteTag(name)
		}
		t := g.tags[name]
		if t == nil && g.flights.RunningLocked() == 0 {
			continue // no entry has it, and no load can return one
		}
		if t == nil {
			t = g.addTagLocked(name)
		}
		fn(t)
	}
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

// addTagLocked makes a tag. A sweep may have dropped it after it was invalidated, so
// it counts as invalidated at the floor. The table's lock must be held.
func (g *Guard[K, V]) addTagLocked(name string) *tag {
	t := &tag{name: name}
	t.seq.Store(g.tagFloor)
	g.tags[name] = t
	return t
}

// sweepTagsLocked drops the tags that no entry has, if there are many. It looks
// at every entry, once for each doubling of the number of tags. The table's
// lock must be held.
//
// Tags that were invalidated after a running load began are kept: the load may return
// them. The others were invalidated before the floor or at it, and a load that began
// before the floor is overtaken by each tag that memory does not have. If there are
// too many to keep, the floor is now, and overtakes all loads that return such a tag.
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
	floor := g.seq
	for l := range g.flights.LiveLocked() {
		if !l.FinalLocked() {
			floor = min(floor, l.Seq)
		}
	}
	g.tagFloor = max(g.tagFloor, floor) // it never goes back: what was dropped stays unknown
	drop := func() {
		for name, t := range g.tags {
			if !used[t] && max(t.seq.Load(), t.expired) <= g.tagFloor {
				delete(g.tags, name)
			}
		}
	}
	if drop(); len(g.tags) > len(used)+maxIdleTags {
		g.tagFloor = g.seq
		drop()
	}
	g.tagSweep = max(minTagSweep, 2*len(g.tags))
}

// setTags sets the tags of e before it is stored, and the count of
// invalidations after which one outdates it.
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
