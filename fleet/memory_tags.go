package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// tagNotes are the invalidations by tag of one namespace.
type tagNotes struct {
	last  uint64
	notes map[noteOf]tagNote
	sweep int // above this number of notes, expired ones are dropped
}

// A noteOf is the key of a note: a tag, and whether it was expired or invalidated.
type noteOf struct {
	tag     string
	expired bool
}

type tagNote struct {
	seq   uint64
	until time.Duration
}

const minTagSweep = 64

func checkTags(tags []string) error {
	var errs []error
	if len(tags) > MaxTags {
		errs = append(errs, fmt.Errorf("fleet: %d tags in one call; at most %d", len(tags), MaxTags))
	}
	for _, tag := range tags {
		if len(tag) > MaxName {
			errs = append(errs, fmt.Errorf("fleet: a tag of %d bytes; at most %d", len(tag), MaxName))
		}
	}
	return errors.Join(errs...)
}

// Tags implements [Tier].
func (m *Memory) Tags(ctx context.Context, namespace string, tags []string) (TagState, error) {
	if err := errors.Join(checkNamespace(namespace), checkTags(tags)); err != nil {
		return TagState{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "tags")
	if err != nil {
		return TagState{}, err
	}
	s := TagState{Each: make([]uint64, len(tags)), Expired: make([]uint64, len(tags))}
	n := m.tags[namespace]
	if n == nil {
		return s, nil
	}
	s.Last = n.last
	for i, tag := range tags {
		if note := n.notes[noteOf{tag, false}]; note.until > now {
			s.Each[i] = note.seq
		}
		if note := n.notes[noteOf{tag, true}]; note.until > now {
			s.Expired[i] = note.seq
		}
	}
	return s, nil
}

// InvalidateTags implements [Tier]. Numbers follow the clock, as fences do, so that
// they also grow across a restart.
func (m *Memory) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return m.note(ctx, "invalidate tags", event{kind: tagged}, namespace, tags, keep)
}

// ExpireTags implements [Tier].
func (m *Memory) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return m.note(ctx, "expire tags", event{kind: expired}, namespace, tags, keep)
}

// note records an invalidation for each of tags, and sends e to the watchers.
func (m *Memory) note(ctx context.Context, op string, e event, namespace string, tags []string, keep time.Duration) (uint64, error) {
	if err := errors.Join(checkNamespace(namespace), checkTags(tags)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, op)
	if err != nil {
		return 0, err
	}
	n := m.tags[namespace]
	if n == nil {
		n = &tagNotes{notes: make(map[noteOf]tagNote), sweep: minTagSweep}
		m.tags[strings.Clone(namespace)] = n
	}
	n.last = max(n.last+1, m.micros(now))
	for _, tag := range tags {
		e.name, e.number = strings.Clone(tag), n.last
		n.note(noteOf{e.name, e.kind == expired}, now, after(now, keep), m.maxKeys)
		m.tellLocked(namespace, e)
	}
	if len(n.notes) > m.maxKeys {
		n.fold()
		m.tellLocked(namespace, event{kind: tagged, number: n.last})
	}
	return n.last, nil
}

// note records the last number for of, and keeps it at least as long as an earlier
// note.
func (n *tagNotes) note(of noteOf, now, until time.Duration, most int) {
	n.notes[of] = tagNote{seq: n.last, until: max(until, n.notes[of].until)}
	if len(n.notes) <= min(n.sweep, most) {
		return
	}
	for of, note := range n.notes {
		if note.until <= now {
			delete(n.notes, of)
		}
	}
	n.sweep = max(minTagSweep, 2*len(n.notes))
}

// fold replaces all notes by one for the whole namespace: that invalidates too much,
// never too little.
func (n *tagNotes) fold() {
	var until time.Duration
	for _, note := range n.notes {
		until = max(until, note.until)
	}
	clear(n.notes)
	n.notes[noteOf{}] = tagNote{seq: n.last, until: until}
}
