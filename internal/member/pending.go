package member

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// An invalidation that the engine has not acknowledged is pending. Until it is,
// no answer of the engine that it touches is used here:
//
//	A: is cut off; invalidates k, and the engine does not learn of it
//	A: is back, and asks for k; the engine still has the value from before
//
// So Ask sends what touches its key first, and fails if the engine does not take
// it. The rest is sent in the background. Of a tag, or of everything, it is the
// same.
//
// Sending one again does no harm: an invalidation of old that arrives twice, or
// late, costs a load. That is why a Write that sets a value is never repeated as
// such: it would undo a newer one.

// DefaultMaxPending bounds the bytes of the pending invalidations of a Member.
// With more of them, one of everything takes their place.
const DefaultMaxPending = 16 << 20

const (
	pendingCost   = 160 // bytes that one takes besides its name
	minReplay     = 100 * time.Millisecond
	maxReplay     = 2 * time.Second
	replaysAtOnce = 32
)

// A subject is what an invalidation is about: a key, or a tag, with "" for
// everything.
type subject struct {
	name string
	tag  bool
}

var everything = subject{tag: true}

// A pending is an invalidation that the engine has not acknowledged. Its fields
// are guarded by Member.mu.
type pending struct {
	subject
	expire bool          // of a key: it only ends the freshness
	round  uint64        // how often it was asked for: an answer counts for what was asked before it was sent
	done   chan struct{} // closed when the attempt under way has ended; nil while there is none
	err    error         // of the last attempt
}

// backlog is the part of a Member that keeps what is pending.
type backlog struct {
	pending    map[subject]*pending // guarded by Member.mu
	bytes      int                  // guarded by Member.mu
	overflowed bool                 // guarded by Member.mu: everything stands for what had no room
	timer      *time.Timer          // guarded by Member.mu: of the next replay
	every      time.Duration        // guarded by Member.mu: until then
	replaying  bool                 // guarded by Member.mu
	again      bool                 // guarded by Member.mu: as soon as the replay under way has ended

	telling sync.Mutex // held while Hooks.Pending is called; taken before Member.mu
	told    bool       // guarded by telling: what the hook was told last
}

// Pending says how the invalidations stand that the engine has not acknowledged.
type Pending struct {
	Count   int   // of them
	Blocked bool  // one of them is of everything: nothing of the engine is used
	Err     error // why the last attempt failed; nil if there is none left
}

// owe notes that the engine has not acknowledged an invalidation of these, and
// returns the error for the caller.
func (m *Member) owe(cause error, expire bool, about ...subject) error {
	m.mu.Lock()
	for _, s := range about {
		m.oweLocked(s, expire, cause)
	}
	e := &fleet.PendingError{Pending: len(m.backlog.pending), Err: cause}
	m.scheduleLocked(m.backlog.every)
	m.mu.Unlock()
	m.tellPending(cause)
	return e
}

// oweLocked is owe for one. What was read before is overtaken. m.mu must be held.
func (m *Member) oweLocked(s subject, expire bool, cause error) {
	b := &m.backlog
	if b.pending == nil {
		b.pending, b.every = make(map[subject]*pending), minReplay
	}
	m.count.queued.Add(1)
	if !s.tag {
		for _, seat := range m.seats[s.name] {
			seat.missed = true
		}
	} else if s == everything {
		m.overtakeLocked()
	}
	if b.overflowed { // and so everything is pending already
		s = everything
	}
	p := b.pending[s]
	if p == nil {
		if b.bytes += len(s.name) + pendingCost; b.bytes > m.o.MaxPending && s != everything {
			m.overflowLocked(cause)
			return
		}
		p = &pending{subject: s, expire: expire}
		b.pending[s] = p
		m.owed.Store(int64(len(b.pending)))
	}
	p.round++
	p.expire = p.expire && expire
	p.err = cause
}

// overflowLocked replaces what is pending by an invalidation of everything. m.mu
// must be held.
func (m *Member) overflowLocked(cause error) {
	b := &m.backlog
	m.count.overflows.Add(1)
	all := b.pending[everything]
	if all == nil {
		all = &pending{subject: everything}
	}
	all.round++
	all.err = cause
	clear(b.pending)
	b.pending[everything] = all
	b.bytes, b.overflowed = pendingCost, true
	m.owed.Store(1)
	m.overtakeLocked()
}

// overtakeLocked makes what seats have read before count as overtaken. m.mu must
// be held.
func (m *Member) overtakeLocked() {
	for _, seats := range m.seats {
		for _, s := range seats {
			s.missed = true
		}
	}
}

// touches returns a pending invalidation of one of these; nil for none.
func (m *Member) touches(about ...subject) *pending {
	if m.owed.Load() == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range about {
		if p := m.backlog.pending[s]; p != nil {
			return p
		}
	}
	return nil
}

// yield sends what is pending about these, and returns nil when nothing is.
func (m *Member) yield(ctx context.Context, about ...subject) error {
	for {
		p := m.touches(about...)
		if p == nil {
			return nil
		}
		if err := m.deliver(ctx, p); err != nil {
			return err
		}
	}
}

// yieldTags is yield for tags of a value, of which there may be many.
func (m *Member) yieldTags(ctx context.Context, tags []string) error {
	if m.owed.Load() == 0 {
		return nil
	}
	for _, tag := range tags {
		if err := m.yield(ctx, subject{tag, true}); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends p, or waits for the attempt that is under way. It returns nil
// when p is not pending any more, or has been asked for again meanwhile.
func (m *Member) deliver(ctx context.Context, p *pending) error {
	m.mu.Lock()
	if m.backlog.pending[p.subject] != p {
		m.mu.Unlock()
		return nil
	}
	done := p.done
	if done == nil {
		done = make(chan struct{})
		p.done = done
		round, w := p.round, fleet.Write{Expire: p.expire}
		m.mu.Unlock()
		m.inBackground(func() { m.send(p, round, w) })
	} else {
		m.mu.Unlock()
	}
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.backlog.pending[p.subject] != p {
		return nil
	}
	return p.err
}

// send makes one attempt.
func (m *Member) send(p *pending, round uint64, w fleet.Write) {
	ctx := context.Background() // the Tier has a deadline of its own
	m.count.writes.Add(1)
	var err error
	if p.tag {
		_, err = m.invalidate(ctx, p.name)
	} else {
		var fence uint64
		if fence, err = m.o.Tier.Write(ctx, m.key(p.name), w); err == nil {
			m.made(change{name: p.name, fence: fence})
			m.mu.Lock()
			m.seenLocked(p.name, fence, !w.Expire)
			m.mu.Unlock()
		}
	}
	_ = m.counted(err)
	m.mu.Lock()
	b := &m.backlog
	close(p.done)
	p.done, p.err = nil, err
	if err == nil && p.round == round && b.pending[p.subject] == p {
		m.paidLocked(p)
	}
	m.mu.Unlock()
	m.tellPending(err)
}

// paidLocked: the engine has acknowledged p. m.mu must be held.
func (m *Member) paidLocked(p *pending) {
	b := &m.backlog
	delete(b.pending, p.subject)
	b.bytes -= len(p.name) + pendingCost
	b.every = minReplay
	m.count.replayed.Add(1)
	if p.subject == everything {
		b.overflowed = false
	}
	if len(b.pending) == 0 && b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	m.owed.Store(int64(len(b.pending)))
}

// invalidate is Tier.InvalidateTags with what has to be noted of it.
func (m *Member) invalidate(ctx context.Context, tags ...string) (uint64, error) {
	known, turn := m.numbers()
	seq, err := m.o.Tier.InvalidateTags(ctx, m.o.Namespace, tags, m.o.TagKeep)
	if err != nil {
		return 0, err
	}
	if seq <= known {
		m.lose(turn)
	}
	for _, tag := range tags {
		m.tagged(tag, seq)
		m.made(change{name: tag, tag: seq})
	}
	return seq, nil
}

// scheduleLocked sees to a replay after d at the latest. m.mu must be held.
func (m *Member) scheduleLocked(d time.Duration) {
	b := &m.backlog
	switch {
	case m.closed || len(b.pending) == 0 || b.replaying:
	case b.timer == nil:
		b.timer = time.AfterFunc(d+Jitter(d), m.replay)
	case d == 0:
		b.timer.Reset(0)
	}
}

// hurry has what is pending sent at once: the engine is said to be back.
func (m *Member) hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &m.backlog
	b.every, b.again = minReplay, b.replaying
	m.scheduleLocked(0)
}

// replay sends what is pending, on the timer's goroutine. There is one at a time.
func (m *Member) replay() {
	m.mu.Lock()
	b := &m.backlog
	b.timer = nil
	if m.closed || b.replaying {
		m.mu.Unlock()
		return
	}
	b.replaying, b.again = true, false
	m.busy++ // Close waits
	m.mu.Unlock()
	defer m.idled()
	m.drain(context.Background())
	m.mu.Lock()
	defer m.mu.Unlock()
	b.replaying = false
	if b.again {
		m.scheduleLocked(0)
		return
	}
	b.every = min(2*b.every, maxReplay)
	m.scheduleLocked(b.every)
}

// drain sends all that is pending, some at a time. It gives up when none of some
// was taken.
func (m *Member) drain(ctx context.Context) {
	m.mu.Lock()
	all := make([]*pending, 0, len(m.backlog.pending))
	for _, p := range m.backlog.pending {
		all = append(all, p)
	}
	m.mu.Unlock()
	for atOnce := 4; len(all) > 0 && ctx.Err() == nil; atOnce = replaysAtOnce {
		some := all[:min(atOnce, len(all))]
		all = all[len(some):]
		errs := make([]error, len(some))
		var wg sync.WaitGroup
		for i, p := range some {
			wg.Go(func() { errs[i] = m.deliver(ctx, p) })
		}
		wg.Wait()
		if !slices.Contains(errs, nil) {
			return
		}
	}
}

// tellPending tells the owner when something is pending, and when nothing is any
// more: once each time. cause is why.
func (m *Member) tellPending(cause error) {
	if m.o.Hooks.Pending == nil {
		return
	}
	b := &m.backlog
	b.telling.Lock()
	defer b.telling.Unlock()
	m.mu.Lock()
	state := m.pendingLocked()
	m.mu.Unlock()
	if now := state.Count > 0; now != b.told {
		b.told = now
		if now {
			state.Err = cause
		}
		defer func() { _ = recover() }() // it is the owner's, and often on a goroutine of ours
		m.o.Hooks.Pending(state)
	}
}

// pendingLocked is how it stands. m.mu must be held.
func (m *Member) pendingLocked() Pending {
	return Pending{Count: len(m.backlog.pending), Blocked: m.backlog.pending[everything] != nil}
}

// errNotSent is why what is pending at Close is lost.
var errNotSent = errors.New("closed before the engine has acknowledged them")

// settleUp sends what is pending for the last time. What is left is lost with
// this instance, and the error says so.
func (m *Member) settleUp(ctx context.Context) error {
	if m.owed.Load() == 0 {
		return nil
	}
	m.drain(ctx)
	m.drain(ctx) // the first may have waited for attempts from before
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.backlog.pending); n > 0 {
		return &fleet.PendingError{Pending: n, Err: errNotSent}
	}
	return nil
}
