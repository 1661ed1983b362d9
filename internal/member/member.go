// Package member is one instance's part in a fleet, for one namespace: it asks
// the Tier, holds leases, waits to be woken, and knows which answers were
// overtaken before they could be used. Package weir's Guards and weirhttp stand
// on it.
package member

import (
	"context"
	"errors"
	"math/rand/v2"
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

	// MaxPending bounds the bytes of invalidations that the engine has not
	// acknowledged. 0: DefaultMaxPending.
	MaxPending int
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
	// Pending: there are invalidations that the engine has not acknowledged, or
	// none any more. Called once for each turn.
	Pending func(Pending)
}

// A Member is safe for concurrent use. Make one with New.
type Member struct {
	o     Options
	given fleet.Tier // the one within Options.Tier
	stop  func()     // ends Watch
	count counters
	owed  atomic.Int64 // how many invalidations are pending; written under mu

	mu      sync.Mutex
	seats   map[string][]*Seat // guarded by mu
	lastTag uint64             // guarded by mu: number of the last invalidation by tag, as far as known
	tagSeq  uint64             // guarded by mu: the same, as far as known since the last Reset
	cleared uint64             // guarded by mu: of the last of all the namespace
	closed  bool               // guarded by mu
	own     map[change]bool    // guarded by mu: changes of our own, of which the push is still to come

	synced   bool      // guarded by mu: both numbers were read since the last Reset
	syncedAt time.Time // guarded by mu: when they were asked for
	syncing  *tagRead  // guarded by mu: nil while nobody reads them
	missed   uint64    // guarded by mu: how often something was

	busy int           // guarded by mu: what runs in the background, such as leases that are given up
	idle chan struct{} // guarded by mu: not nil while Close waits for it

	backlog backlog
	history history
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
	if o.MaxPending <= 0 {
		o.MaxPending = DefaultMaxPending
	}
	given := o.Tier
	o.Tier = survivor{given}
	m := &Member{o: o, given: given, seats: make(map[string][]*Seat), own: make(map[change]bool)}
	var err error
	m.stop, err = o.Tier.Watch(o.Namespace, (*watcher)(m))
	return m, err
}

// Close stops the watching, sends what is pending a last time, and waits, until
// ctx ends, for that and for leases that are being given up. Loads must have
// ended, or been cancelled, before. If invalidations are still pending, the error
// is a *fleet.PendingError: they are lost.
func (m *Member) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	if t := m.backlog.timer; t != nil {
		t.Stop()
	}
	m.mu.Unlock()
	if first {
		m.stop()
	}
	unsent := m.settleUp(ctx)
	m.mu.Lock()
	if m.busy == 0 {
		m.mu.Unlock()
		return unsent
	}
	if m.idle == nil {
		m.idle = make(chan struct{})
	}
	idle := m.idle
	m.mu.Unlock()
	select {
	case <-idle:
		return unsent
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), unsent)
	}
}

// inBackground runs fn, which the Tier's deadline bounds. Close waits for it.
func (m *Member) inBackground(fn func()) {
	m.mu.Lock()
	m.busy++
	m.mu.Unlock()
	go func() {
		defer m.idled()
		fn()
	}()
}

// idled ends what busy counts.
func (m *Member) idled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy--; m.busy == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
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

// Tier returns the Tier that New was given.
func (m *Member) Tier() fleet.Tier { return m.given }

// Write changes name for everybody. An answer that was read before is overtaken.
// If the engine does not acknowledge it, an invalidation is pending (an Expire
// stays one) and the error is a *fleet.PendingError. What is pending of the key
// goes first: others must not have the value from before it as a stale one.
func (m *Member) Write(ctx context.Context, name string, w fleet.Write) (fence uint64, err error) {
	m.count.writes.Add(1)
	if len(name) > fleet.MaxName {
		return m.o.Tier.Write(ctx, m.key(name), w) // says what is wrong with it; nothing can be stored there
	}
	about := subject{name: name}
	expire := w.Expire && w.Entry == nil
	owes := true // ctx is a user's, and may panic
	defer func() {
		if owes {
			err = m.owe(m.counted(err), expire, about)
		}
	}()
	if err := m.yield(ctx, about, everything); err != nil {
		return 0, err
	}
	fence, err = m.put(ctx, name, w)
	owes = err != nil
	return fence, err
}

// Put is Write for what a load has brought. If the engine does not acknowledge
// it, that is all: nothing has become invalid.
func (m *Member) Put(ctx context.Context, name string, w fleet.Write) (uint64, error) {
	m.count.writes.Add(1)
	if err := m.yield(ctx, subject{name: name}, everything); err != nil {
		return 0, m.counted(err)
	}
	fence, err := m.put(ctx, name, w)
	return fence, m.counted(err)
}

func (m *Member) put(ctx context.Context, name string, w fleet.Write) (uint64, error) {
	if w.Entry != nil {
		w.Entry.Keep = min(w.Entry.Keep, m.o.Keep)
	}
	known := m.view(name)
	fence, err := m.o.Tier.Write(ctx, m.key(name), w)
	if err != nil {
		return 0, err
	}
	if fence <= known.seen {
		m.lose(known.turns)
	}
	m.made(change{name: name, fence: fence})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seenLocked(name, fence, !w.Expire || w.Entry != nil)
	for _, s := range m.seats[name] { // the push may come much later
		s.pushed = max(s.pushed, fence)
	}
	return fence, nil
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
	m.seenLocked(name, fence, removed)
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

// Recovered: who waited was woken at Lost, and pushes came all the time.
func (w *watcher) Recovered() { (*Member)(w).hurry() }

func (w *watcher) Reset() {
	m := (*Member)(w)
	m.count.resets.Add(1)
	m.wakeAll(true)
	if m.o.Hooks.Reset != nil {
		m.o.Hooks.Reset()
	}
	m.hurry()
}

// wakeAll wakes who waits. If something may have been missed, what seats have
// read before counts as overtaken.
func (m *Member) wakeAll(missed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if missed {
		m.synced, m.tagSeq = false, 0
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

// maxJitter bounds by how much those who wait for a lease's end do so longer, so
// that they do not all ask at once.
const maxJitter = 50 * time.Millisecond

// Jitter is by how much longer one waits who does so for d. It is a variable for
// the simulator, whose histories have no other chance than their seed's.
var Jitter = func(d time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(d/4+time.Millisecond, maxJitter)))
}
