// Package member is one instance's part in a fleet, for one namespace: it asks
// the Tier, holds leases, waits to be woken, and knows which answers were
// overtaken before they could be used. Package weir's Guards and weirhttp stand
// on it.
package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
)

// Options configure a Member. All are required but Hooks' functions.
type Options struct {
	Tier      fleet.Tier
	Namespace string
	Lease     time.Duration // of loads; extended every third of it
	Keep      time.Duration // entries are in the Tier for so long at most
	TagKeep   time.Duration // invalidations by tag are noted for so long: longer than Keep and the longest load
	Recheck   time.Duration // what is known of them is believed for so long: a push may be lost without a trace
	Codec     string        // name of the codec: entries of others are not used
	Hooks     Hooks
}

// Hooks tell the owner what others have done, and, if a push comes before the
// answer, what it has done itself. They are called one after
// another, without a lock of the Member's.
type Hooks struct {
	// Changed: what memory holds for name with a lower fence is out of date; if
	// removed it must not be served in any way.
	Changed func(name string, fence uint64, removed bool)
	// Tagged: entries with the tag are out of date, with "" all are.
	Tagged func(tag string)
	// Reset: what memory holds counts as stale, since something may have been
	// missed.
	Reset func()
}

// A Member is safe for concurrent use. Make one with New.
type Member struct {
	o     Options
	stop  func() // ends Watch
	count counters

	mu      sync.Mutex
	seats   map[string][]*Seat // guarded by mu
	lastTag uint64             // guarded by mu: number of the last invalidation by tag, as far as known
	cleared uint64             // guarded by mu: of the last of all the namespace
	closed  bool               // guarded by mu
	own     map[change]bool    // guarded by mu: changes of our own, of which the push is still to come

	synced   bool      // guarded by mu: both numbers were read since the last Reset
	syncedAt time.Time // guarded by mu: when they were asked for
	syncing  *tagRead  // guarded by mu: nil while nobody reads them
	missed   uint64    // guarded by mu: how often something was

	busy int           // guarded by mu: leases that are given up in the background
	idle chan struct{} // guarded by mu: not nil while Close waits for them
}

// A change is a Write, or with no fence an invalidation by tag.
type change struct {
	name       string
	fence, tag uint64
}

// maxOwn bounds the changes that are remembered. Of those forgotten for others
// the push is heeded, which costs a load.
const maxOwn = 1 << 12

// made notes a change of our own.
func (m *Member) made(c change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.own) >= maxOwn { // pushes that came before made leave theirs here for good
		for old := range m.own {
			delete(m.own, old)
			break
		}
	}
	m.own[c] = true
}

// madeHereLocked reports whether a change that is told is our own. m.mu must be
// held.
func (m *Member) madeHereLocked(c change) bool {
	own := m.own[c]
	delete(m.own, c)
	return own
}

// New returns a Member that watches its namespace until Close.
func New(o Options) (*Member, error) {
	o.TagKeep = max(o.TagKeep, 2*o.Keep)
	m := &Member{o: o, seats: make(map[string][]*Seat), own: make(map[change]bool)}
	var err error
	m.stop, err = o.Tier.Watch(o.Namespace, (*watcher)(m))
	return m, err
}

// Close stops the watching and waits, until ctx ends, for leases that are being
// given up. Loads must have ended, or been cancelled, before.
func (m *Member) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		m.stop()
	}
	m.mu.Lock()
	if m.busy == 0 {
		m.mu.Unlock()
		return nil
	}
	if m.idle == nil {
		m.idle = make(chan struct{})
	}
	idle := m.idle
	m.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inBackground runs fn, which the Tier's deadline bounds. Close waits for it.
func (m *Member) inBackground(fn func()) {
	m.mu.Lock()
	m.busy++
	m.mu.Unlock()
	go func() {
		fn()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.busy--; m.busy == 0 && m.idle != nil {
			close(m.idle)
			m.idle = nil
		}
	}()
}

// Taken reports whether anybody sits at name.
func (m *Member) Taken(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seats[name]) > 0
}

func (m *Member) key(name string) fleet.Key {
	return fleet.Key{Namespace: m.o.Namespace, Name: name}
}

// Tier returns the Tier.
func (m *Member) Tier() fleet.Tier { return m.o.Tier }

// Write changes name for everybody. An answer that was read before is overtaken.
func (m *Member) Write(ctx context.Context, name string, w fleet.Write) (fence uint64, err error) {
	if w.Entry != nil {
		w.Entry.Keep = min(w.Entry.Keep, m.o.Keep)
	}
	m.count.writes.Add(1)
	fence, err = m.o.Tier.Write(ctx, m.key(name), w)
	if err != nil {
		return 0, m.counted(err)
	}
	m.made(change{name: name, fence: fence})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seats[name] { // the push may come much later
		s.pushed = max(s.pushed, fence)
	}
	return fence, nil
}

// InvalidateTags invalidates tags for everybody, "" for all of the namespace.
func (m *Member) InvalidateTags(ctx context.Context, tags ...string) error {
	for some := range slices.Chunk(tags, fleet.MaxTags) {
		m.count.writes.Add(1)
		seq, err := m.o.Tier.InvalidateTags(ctx, m.o.Namespace, some, m.o.TagKeep)
		if err != nil {
			return m.counted(err)
		}
		for _, tag := range some {
			m.tagged(tag, seq)
			m.made(change{name: tag, tag: seq})
		}
	}
	return nil
}

// tagged notes an invalidation by tag.
func (m *Member) tagged(tag string, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastTag = max(m.lastTag, seq)
	if tag == "" {
		m.cleared = max(m.cleared, seq)
	}
}

// known notes the number of the last invalidation: a load that begins from now
// on knows of it, also if its push was lost.
func (m *Member) known(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastTag = max(m.lastTag, last)
}

// TagSeq is the number for a Value whose load begins now: of the last
// invalidation by tag that is known here. There may have been later ones, which
// then count as if they had come after the load's start.
func (m *Member) TagSeq() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastTag
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
	s, err := m.o.Tier.Tags(ctx, m.o.Namespace, []string{""})
	if err == nil && len(s.Each) != 1 {
		err = &fleet.UnavailableError{Op: "tags", Err: fleet.ErrWire}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncing, r.err = nil, err
	close(r.done)
	if err != nil {
		return
	}
	m.lastTag, m.cleared = max(m.lastTag, s.Last), max(m.cleared, s.Each[0])
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
	for tags := range slices.Chunk(append([]string{""}, v.Tags...), fleet.MaxTags) {
		m.count.tagReads.Add(1)
		s, err := m.o.Tier.Tags(ctx, m.o.Namespace, tags)
		if err != nil {
			return false, err
		}
		m.known(s.Last)
		if len(s.Each) != len(tags) || slices.Max(s.Each) > v.TagSeq {
			return true, nil
		}
	}
	return false, nil
}

// counted counts an error of the Tier.
func (m *Member) counted(err error) error {
	if errors.Is(err, fleet.ErrUnavailable) {
		m.count.unavailable.Add(1)
	}
	return err
}

// watcher is the Member as the Tier sees it.
type watcher Member

var (
	_ fleet.Watcher   = (*watcher)(nil)
	_ fleet.Recoverer = (*watcher)(nil)
)

func (w *watcher) Changed(name string, fence uint64, removed bool) {
	m := (*Member)(w)
	m.count.pushes.Add(1)
	m.mu.Lock()
	for _, s := range m.seats[name] {
		s.pushed = max(s.pushed, fence)
		s.wakeLocked()
	}
	own := m.madeHereLocked(change{name: name, fence: fence})
	m.mu.Unlock()
	if m.o.Hooks.Changed != nil && !own {
		m.o.Hooks.Changed(name, fence, removed)
	}
}

func (w *watcher) Released(name string) {
	m := (*Member)(w)
	m.count.pushes.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seats[name] {
		s.wakeLocked()
	}
}

func (w *watcher) Tagged(tag string, seq uint64) {
	m := (*Member)(w)
	m.count.pushes.Add(1)
	m.tagged(tag, seq)
	m.mu.Lock()
	own := m.madeHereLocked(change{name: tag, tag: seq})
	m.mu.Unlock()
	if m.o.Hooks.Tagged != nil && !own {
		m.o.Hooks.Tagged(tag)
	}
}

func (w *watcher) Lost() { (*Member)(w).wakeAll(false) }

// Recovered needs nothing done: who waited was woken at Lost, and pushes came all
// the time.
func (w *watcher) Recovered() {}

func (w *watcher) Reset() {
	m := (*Member)(w)
	m.count.resets.Add(1)
	m.wakeAll(true)
	if m.o.Hooks.Reset != nil {
		m.o.Hooks.Reset()
	}
}

// wakeAll wakes who waits. If something may have been missed, what seats have
// read before counts as overtaken.
func (m *Member) wakeAll(missed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if missed {
		m.synced = false
		m.missed++
		clear(m.own)
	}
	for _, seats := range m.seats {
		for _, s := range seats {
			s.missed = s.missed || missed
			s.wakeLocked()
		}
	}
}

// Stats are counts of what a Member has asked, and of what it was told.
type Stats struct {
	Acquires, Fresh, Granted, Held, Cooling uint64
	Settled, Refused, Extended, LostLeases  uint64
	Writes, TagReads, Unavailable           uint64
	Waits, Pushes, Resets                   uint64
}

type counters struct {
	acquires, fresh, granted, held, cooling atomic.Uint64
	settled, refused, extended, lost        atomic.Uint64
	writes, tagReads, unavailable           atomic.Uint64
	waits, pushes, resets                   atomic.Uint64
}

// Stats returns the counts.
func (m *Member) Stats() Stats {
	c := &m.count
	return Stats{
		Acquires: c.acquires.Load(), Fresh: c.fresh.Load(), Granted: c.granted.Load(), Held: c.held.Load(), Cooling: c.cooling.Load(),
		Settled: c.settled.Load(), Refused: c.refused.Load(), Extended: c.extended.Load(), LostLeases: c.lost.Load(),
		Writes: c.writes.Load(), TagReads: c.tagReads.Load(), Unavailable: c.unavailable.Load(),
		Waits: c.waits.Load(), Pushes: c.pushes.Load(), Resets: c.resets.Load(),
	}
}

// maxJitter bounds by how much those who wait for a lease's end do so longer, so
// that they do not all ask at once.
const maxJitter = 50 * time.Millisecond

// Jitter is by how much longer one waits who does so for d. It is a variable for
// the simulator, whose histories have no other chance than their seed's.
var Jitter = func(d time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(d/4+time.Millisecond, maxJitter)))
}
