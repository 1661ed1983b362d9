package member

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
)

// InvalidateTags invalidates tags for everybody, "" for all of the namespace.
// Those that the engine does not acknowledge are pending, and the error is a
// *fleet.PendingError.
func (m *Member) InvalidateTags(ctx context.Context, tags ...string) (err error) {
	long := func(tag string) bool { return len(tag) > fleet.MaxName }
	if i := slices.IndexFunc(tags, long); i >= 0 {
		_, wrong := m.o.Tier.InvalidateTags(ctx, m.o.Namespace, tags[i:i+1], m.o.TagKeep) // says what is wrong with it
		tags = slices.DeleteFunc(slices.Clone(tags), long)                                // no instance takes values that have one
		defer func() { err = cmp.Or(err, wrong) }()
	}
	left := tags
	defer func() { // ctx is a user's, and may panic
		if len(left) > 0 {
			about := make([]subject, len(left))
			for i, tag := range left {
				about[i] = subject{tag, true}
			}
			err = m.owe(m.counted(err), false, about...)
		}
	}()
	for some := range slices.Chunk(tags, fleet.MaxTags) {
		m.count.writes.Add(1)
		if _, err := m.invalidate(ctx, some...); err != nil {
			return err
		}
		left = left[len(some):]
	}
	return nil
}

// tagged notes an invalidation by tag.
func (m *Member) tagged(tag string, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastTag, m.tagSeq = max(m.lastTag, seq), max(m.tagSeq, seq)
	if tag == "" {
		m.cleared = max(m.cleared, seq)
	}
}

// numbers are the last invalidation that is known, and the turn of history.
func (m *Member) numbers() (last, turn uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastTag, m.history.turns
}

// known notes the number of the last invalidation: a load that begins from now
// on knows of it, also if its push was lost.
func (m *Member) known(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastTag, m.tagSeq = max(m.lastTag, last), max(m.tagSeq, last)
}

// TagSeq is the number for a Value whose load begins now: of the last
// invalidation by tag that is known here. There may have been later ones, which
// then count as if they had come after the load's start. What was known before a
// Reset does not count: it may be of a history that the engine has lost.
func (m *Member) TagSeq() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tagSeq
}

// sync reads the numbers of invalidations, unless they are known and not older
// than Options.Recheck. Who comes while they are read waits for that: without them
// an entry that was cleared long ago would be taken for a good one.
func (m *Member) sync(ctx context.Context) error {
	for {
		m.mu.Lock()
		if m.synced && (m.o.Recheck <= 0 || time.Since(m.syncedAt) < m.o.Recheck) {
			m.mu.Unlock()
			return nil
		}
		r := m.syncing
		if r == nil {
			r = &tagRead{done: make(chan struct{}), missed: m.missed}
			m.syncing = r
			m.mu.Unlock()
			m.readTags(ctx, r)
			if r.err != nil {
				return r.err
			}
			continue // there may have been a Reset meanwhile
		}
		m.mu.Unlock()
		select {
		case <-r.done:
			if errors.Is(r.err, fleet.ErrUnavailable) { // each for itself would wait as long again
				return r.err
			} // else it may have ended with the other's context
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A tagRead is a sync under way.
type tagRead struct {
	done   chan struct{} // closed when err is final
	missed uint64        // Member.missed when it began
	err    error         // written before done is closed, read only after
}

// readTags is sync for the one that reads. What was read counts as known unless
// something has been missed meanwhile.
func (m *Member) readTags(ctx context.Context, r *tagRead) {
	m.count.tagReads.Add(1)
	asked := time.Now()
	known, turn := m.numbers()
	s, err := m.o.Tier.Tags(ctx, m.o.Namespace, []string{""})
	if err == nil && len(s.Each) != 1 {
		err = &fleet.UnavailableError{Op: "tags", Err: fleet.ErrWire}
	}
	if err == nil && s.Last < known {
		m.lose(turn)
		err = &fleet.UnavailableError{Op: "tags", Err: errHistory}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncing, r.err = nil, err
	close(r.done)
	if err != nil {
		return
	}
	m.lastTag, m.tagSeq, m.cleared = max(m.lastTag, s.Last), max(m.tagSeq, s.Last), max(m.cleared, s.Each[0])
	m.synced, m.syncedAt = r.missed == m.missed, asked
}

// outdated reports whether a value was invalidated by tag after its load began.
// For one with tags that is so from when the invalidation has returned, anywhere;
// for one without, an invalidation of the whole namespace is known when its push
// has come, as it is not worth a command for each answer.
func (m *Member) outdated(ctx context.Context, v *fleet.Value) (bool, error) {
	m.mu.Lock()
	cleared := v.TagSeq < m.cleared
	m.mu.Unlock()
	if cleared || len(v.Tags) == 0 {
		return cleared, nil
	}
	if m.yieldTags(ctx, v.Tags) != nil {
		return true, nil
	}
	for tags := range slices.Chunk(append([]string{""}, v.Tags...), fleet.MaxTags) {
		m.count.tagReads.Add(1)
		known, turn := m.numbers()
		s, err := m.o.Tier.Tags(ctx, m.o.Namespace, tags)
		if err != nil {
			return false, err
		}
		if s.Last < known {
			m.lose(turn)
			return true, nil
		}
		m.known(s.Last)
		if len(s.Each) != len(tags) || slices.Max(s.Each) > v.TagSeq {
			return true, nil
		}
	}
	return false, nil
}
