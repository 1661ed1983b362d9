package fleetclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// An invalidation that the engine has not acknowledged is pending. While it is,
// this instance uses no answer of the engine that it affects:
//
//	A: is cut off; invalidates k, and the engine does not learn of it
//	A: is back, and asks for k; the engine still has the old value
//
// So Ask first sends the pending invalidations that affect its key, and fails if
// the engine does not accept them. The rest is sent in the background.
// Invalidations of a tag, or of everything, work in the same way.
//
// Sending one again does no harm: an old invalidation that arrives twice, or
// late, costs a load. This is not true of a Write that sets a value, which could
// undo a newer one. So a failed Write is repeated only as an invalidation.

// DefaultMaxPending bounds the bytes of the pending invalidations of a Client.
// Beyond it, a single invalidation of everything replaces them.
const DefaultMaxPending = 16 << 20

const (
	pendingCost   = 160 // bytes per invalidation in addition to its name
	minReplay     = 100 * time.Millisecond
	maxReplay     = 2 * time.Second
	replaysAtOnce = 32
)

// A subject is what an invalidation affects: a key or a tag, with the tag "" for
// everything.
type subject struct {
	name string
	tag  bool
}

var everything = subject{tag: true}

// A pending is an invalidation that the engine has not acknowledged. Its fields
// are guarded by Client.mu.
type pending struct {
	subject
	expire bool          // it ends only the freshness
	round  uint64        // number of requests for it; an attempt acknowledges only earlier ones
	done   chan struct{} // closed when the current attempt ends; nil if there is none
	err    error         // of the last attempt
}

// backlog is the part of a Client that keeps the pending invalidations.
type backlog struct {
	pending    map[subject]*pending // guarded by Client.mu
	bytes      int                  // guarded by Client.mu
	overflowed bool                 // guarded by Client.mu: replaced by an invalidation of everything
	timer      *time.Timer          // guarded by Client.mu: of the next replay
	every      time.Duration        // guarded by Client.mu: time until the next replay
	replaying  bool                 // guarded by Client.mu
	again      bool                 // guarded by Client.mu: replay again as soon as the current replay ends

	telling sync.Mutex // held while Hooks.Pending is called; taken before Client.mu
	told    bool       // guarded by telling: the last state reported to the hook
}

// Pending describes the invalidations that the engine has not acknowledged.
type Pending struct {
	Count   int   // number of invalidations
	Blocked bool  // one of them is of everything: no answer of the engine is used
	Err     error // why the last attempt failed; nil if none is left
}

// owe records that the engine has not acknowledged an invalidation of the
// subjects, and returns the error for the caller.
func (c *Client) owe(cause error, expire bool, about ...subject) error {
	c.mu.Lock()
	for _, s := range about {
		c.oweLocked(s, expire, cause)
	}
	e := &fleet.PendingError{Pending: len(c.backlog.pending), Err: cause}
	c.scheduleLocked(c.backlog.every)
	c.mu.Unlock()
	c.tellPending(cause)
	return e
}

// oweLocked is owe for one subject. What was read before is overtaken. c.mu must
// be held.
func (c *Client) oweLocked(s subject, expire bool, cause error) {
	b := &c.backlog
	if b.pending == nil {
		b.pending, b.every = make(map[subject]*pending), minReplay
	}
	c.count.queued.Add(1)
	if !s.tag {
		for _, sub := range c.subs[s.name] {
			sub.missed = true
		}
		c.kept.forget(s.name)
	} else if s == everything {
		c.overtakeLocked()
	}
	if b.overflowed { // then everything is pending already
		s = everything
	}
	p := b.pending[s]
	if p == nil {
		if b.bytes += len(s.name) + pendingCost; b.bytes > c.o.MaxPending && s != everything {
			c.overflowLocked(cause)
			return
		}
		p = &pending{subject: s, expire: expire}
		b.pending[s] = p
		c.owed.Store(int64(len(b.pending)))
	}
	p.round++
	p.expire = p.expire && expire
	p.err = cause
}

// overflowLocked replaces all pending invalidations with one of everything. c.mu
// must be held.
func (c *Client) overflowLocked(cause error) {
	b := &c.backlog
	c.count.overflows.Add(1)
	all := b.pending[everything]
	if all == nil {
		all = &pending{subject: everything}
	}
	all.round++
	all.err, all.expire = cause, false
	clear(b.pending)
	b.pending[everything] = all
	b.bytes, b.overflowed = pendingCost, true
	c.owed.Store(1)
	c.overtakeLocked()
}

// overtakeLocked marks everything that subscriptions have read so far as
// overtaken, and discards the kept values. c.mu must be held.
func (c *Client) overtakeLocked() {
	c.kept.clear()
	for _, subs := range c.subs {
		for _, s := range subs {
			s.missed = true
		}
	}
}

// touches returns a pending invalidation of one of the subjects, or nil.
func (c *Client) touches(about ...subject) *pending {
	if c.owed.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range about {
		if p := c.backlog.pending[s]; p != nil {
			return p
		}
	}
	return nil
}

// yield sends the pending invalidations of the subjects, and returns nil once
// there are none.
func (c *Client) yield(ctx context.Context, about ...subject) error {
	for {
		p := c.touches(about...)
		if p == nil {
			return nil
		}
		if err := c.deliver(ctx, p); err != nil {
			return err
		}
	}
}

// yieldTags is yield for the tags of a value, of which there may be many.
func (c *Client) yieldTags(ctx context.Context, tags []string) error {
	if c.owed.Load() == 0 {
		return nil
	}
	for _, tag := range tags {
		if err := c.yield(ctx, subject{tag, true}); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends p, or waits for the current attempt. It returns nil once p is no
// longer pending. If p was requested again during the attempt, p stays pending
// and the result is the attempt's error.
func (c *Client) deliver(ctx context.Context, p *pending) error {
	c.mu.Lock()
	if c.backlog.pending[p.subject] != p {
		c.mu.Unlock()
		return nil
	}
	done := p.done
	if done == nil {
		done = make(chan struct{})
		p.done = done
		round, w := p.round, fleet.Write{Expire: p.expire}
		c.mu.Unlock()
		c.inBackground(func() { c.send(p, round, w) })
	} else {
		c.mu.Unlock()
	}
	select {
	case <-done:
	case <-ctx.Done():
		return wait.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.backlog.pending[p.subject] != p {
		return nil
	}
	return p.err
}

// send makes one attempt.
func (c *Client) send(p *pending, round uint64, w fleet.Write) {
	ctx := context.Background() // the Tier has its own deadline
	c.count.writes.Add(1)
	var err error
	if p.tag {
		_, err = c.orderTags(ctx, w.Expire, p.name)
	} else {
		var fence uint64
		if fence, err = c.o.Tier.Write(ctx, c.key(p.name), w); err == nil {
			c.noteOwn(change{name: p.name, fence: fence})
			c.mu.Lock()
			c.seenLocked(p.name, fence, !w.Expire)
			c.kept.raise(p.name, fence)
			c.mu.Unlock()
		}
	}
	_ = c.counted(err)
	c.mu.Lock()
	b := &c.backlog
	close(p.done)
	p.done, p.err = nil, err
	if err == nil && p.round == round && b.pending[p.subject] == p {
		c.paidLocked(p)
	}
	c.mu.Unlock()
	c.tellPending(err)
}

// paidLocked removes p after the engine has acknowledged it. c.mu must be held.
func (c *Client) paidLocked(p *pending) {
	b := &c.backlog
	delete(b.pending, p.subject)
	b.bytes -= len(p.name) + pendingCost
	b.every = minReplay
	c.count.replayed.Add(1)
	if p.subject == everything {
		b.overflowed = false
	}
	if len(b.pending) == 0 && b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	c.owed.Store(int64(len(b.pending)))
}

// scheduleLocked schedules a replay after d plus jitter, unless one is scheduled
// already. If d is 0, it makes that one due now. c.mu must be held.
func (c *Client) scheduleLocked(d time.Duration) {
	b := &c.backlog
	switch {
	case c.closed || len(b.pending) == 0 || b.replaying:
	case b.timer == nil:
		b.timer = time.AfterFunc(d+Jitter(d), c.replay)
	case d == 0:
		b.timer.Reset(0)
	}
}

// hurry sends everything pending at once: the engine is reported to be back.
func (c *Client) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.backlog
	b.every, b.again = minReplay, b.replaying
	c.scheduleLocked(0)
}

// replay sends everything pending, on the timer's goroutine. Only one replay runs
// at a time.
func (c *Client) replay() {
	c.mu.Lock()
	b := &c.backlog
	b.timer = nil
	if c.closed || b.replaying {
		c.mu.Unlock()
		return
	}
	b.replaying, b.again = true, false
	c.busy++ // Close waits
	c.mu.Unlock()
	defer c.idled()
	c.drain(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	b.replaying = false
	if b.again {
		c.scheduleLocked(0)
		return
	}
	b.every = min(2*b.every, maxReplay)
	c.scheduleLocked(b.every)
}

// drain sends everything pending, in batches. It gives up after a batch in which
// every attempt failed.
func (c *Client) drain(ctx context.Context) {
	c.mu.Lock()
	all := make([]*pending, 0, len(c.backlog.pending))
	for _, p := range c.backlog.pending {
		all = append(all, p)
	}
	c.mu.Unlock()
	for atOnce := 4; len(all) > 0 && ctx.Err() == nil; atOnce = replaysAtOnce {
		some := all[:min(atOnce, len(all))]
		all = all[len(some):]
		errs := make([]error, len(some))
		var wg sync.WaitGroup
		for i, p := range some {
			wg.Go(func() { errs[i] = c.deliver(ctx, p) })
		}
		wg.Wait()
		if !slices.Contains(errs, nil) {
			return
		}
	}
}

// tellPending calls the owner's hook when the first invalidation becomes pending
// and when none is left, once per transition. cause is the reason.
func (c *Client) tellPending(cause error) {
	if c.o.Hooks.Pending == nil {
		return
	}
	b := &c.backlog
	b.telling.Lock()
	defer b.telling.Unlock()
	c.mu.Lock()
	state := c.pendingLocked()
	c.mu.Unlock()
	if now := state.Count > 0; now != b.told {
		b.told = now
		if now {
			state.Err = cause
		}
		// The hook is the owner's code, which may panic or exit. It has its own goroutine:
		// the caller's goes on to return the error, or is one of the Client.
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			defer func() { _ = recover() }()
			c.o.Hooks.Pending(state)
		}()
		<-returned
	}
}

// pendingLocked returns the current state. c.mu must be held.
func (c *Client) pendingLocked() Pending {
	return Pending{Count: len(c.backlog.pending), Blocked: c.backlog.pending[everything] != nil}
}

// errNotSent is the error for invalidations still pending at Close.
var errNotSent = errors.New("closed before the engine acknowledged them")

// settleUp sends everything pending one last time. What remains is lost with this
// instance, and the error reports it.
func (c *Client) settleUp(ctx context.Context) error {
	if c.owed.Load() == 0 {
		return nil
	}
	c.drain(ctx)
	c.drain(ctx) // the first may have waited for attempts that were already in flight
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.backlog.pending); n > 0 {
		return &fleet.PendingError{Pending: n, Err: errNotSent}
	}
	return nil
}
