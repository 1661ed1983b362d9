// Package fleetclient is one instance's part in a fleet, for one namespace: it asks
// the Tier, holds leases, waits for pushes, and knows which answers were overtaken
// before they could be used. Package weir's Guards and weirhttp are built on it.
package fleetclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
)

// Options configure a Client. All are required but Hooks' functions.
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
// another, without a lock of the Client's.
type Hooks struct {
	// Changed: what memory holds for name with a lower fence is out of date; if
	// removed it must not be served in any way.
	Changed func(name string, fence uint64, removed bool)
	// Tagged: entries with the tag are out of date, with "" all are.
	Tagged func(tag string)
	// Expired: entries with the tag are stale from now on, with "" all are.
	Expired func(tag string)
	// Reset: what memory holds counts as stale, since something may have been
	// missed.
	Reset func()
	// Pending: there are invalidations that the engine has not acknowledged, or
	// none any more. Called once for each turn.
	Pending func(Pending)
}

// A Client is safe for concurrent use. Make one with New.
type Client struct {
	o     Options
	given fleet.Tier // the one within Options.Tier
	stop  func()     // ends Watch
	count counters
	owed  atomic.Int64 // how many invalidations are pending; written under mu

	mu      sync.Mutex
	subs    map[string][]*Subscription // guarded by mu
	lastTag uint64                     // guarded by mu: number of the last invalidation by tag, as far as known
	tagSeq  uint64                     // guarded by mu: the same, as far as known since the last Reset
	cleared uint64                     // guarded by mu: of the last of all the namespace
	expired uint64                     // guarded by mu: of the last time that all of it has expired
	closed  bool                       // guarded by mu
	own     map[change]bool            // guarded by mu: changes of our own, of which the push is still to come

	synced   bool      // guarded by mu: both numbers were read since the last Reset
	syncedAt time.Time // guarded by mu: when they were requested
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

// maxOwn bounds the changes of our own that are remembered. The push of a forgotten
// one is treated as another instance's, which costs a load.
const maxOwn = 1 << 12

// noteOwn notes a change of our own.
func (c *Client) noteOwn(ch change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.own) >= maxOwn { // pushes that came before noteOwn leave theirs here for good
		for old := range c.own {
			delete(c.own, old)
			break
		}
	}
	c.own[ch] = true
}

// isOwnLocked reports whether a pushed change is our own. c.mu must be held.
func (c *Client) isOwnLocked(ch change) bool {
	own := c.own[ch]
	delete(c.own, ch)
	return own
}

// New returns a Client that watches its namespace until Close.
func New(o Options) (*Client, error) {
	o.TagKeep = max(o.TagKeep, 2*o.Keep)
	if o.MaxPending <= 0 {
		o.MaxPending = DefaultMaxPending
	}
	given := o.Tier
	o.Tier = survivor{tier: given}
	c := &Client{o: o, given: given, subs: make(map[string][]*Subscription), own: make(map[change]bool)}
	var err error
	c.stop, err = o.Tier.Watch(o.Namespace, (*watcher)(c))
	return c, err
}

// Close stops the watching, sends what is pending a last time, and waits, until
// ctx ends, for that and for leases that are being given up. Loads must have
// ended, or been canceled, before. If invalidations are still pending, the error
// is a *fleet.PendingError: they are lost.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if t := c.backlog.timer; t != nil {
		t.Stop()
	}
	c.mu.Unlock()
	if first {
		c.stop()
	}
	unsent := c.settleUp(ctx)
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return unsent
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return unsent
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), unsent)
	}
}

// inBackground runs fn, which the Tier's deadline bounds. Close waits for it.
func (c *Client) inBackground(fn func()) {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
	go func() {
		defer c.idled()
		fn()
	}()
}

// idled ends what busy counts.
func (c *Client) idled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Subscribed reports whether name has a Subscription.
func (c *Client) Subscribed(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subs[name]) > 0
}

func (c *Client) key(name string) fleet.Key {
	return fleet.Key{Namespace: c.o.Namespace, Name: name}
}

// Tier returns the Tier that New was given.
func (c *Client) Tier() fleet.Tier { return c.given }

// Write changes name for everybody. An answer that was read before is overtaken.
// If the engine does not acknowledge it, an invalidation is pending (an Expire
// stays one) and the error is a *fleet.PendingError. What is pending of the key
// goes first: others must not have the value from before it as a stale one.
func (c *Client) Write(ctx context.Context, name string, w fleet.Write) (fence uint64, err error) {
	c.count.writes.Add(1)
	if len(name) > fleet.MaxName {
		return c.o.Tier.Write(ctx, c.key(name), w) // says what is wrong with it; nothing can be stored there
	}
	about := subject{name: name}
	expire := w.Expire && w.Entry == nil
	owes := true // ctx is a user's, and may panic
	defer func() {
		if owes {
			err = c.owe(c.counted(err), expire, about)
		}
	}()
	if err := c.yield(ctx, about, everything); err != nil {
		return 0, err
	}
	fence, err = c.put(ctx, name, w)
	owes = err != nil
	return fence, err
}

// Put is Write for what a load has brought. If the engine does not acknowledge
// it, that is all: nothing has become invalid.
func (c *Client) Put(ctx context.Context, name string, w fleet.Write) (uint64, error) {
	c.count.writes.Add(1)
	if err := c.yield(ctx, subject{name: name}, everything); err != nil {
		return 0, c.counted(err)
	}
	fence, err := c.put(ctx, name, w)
	return fence, c.counted(err)
}

func (c *Client) put(ctx context.Context, name string, w fleet.Write) (uint64, error) {
	if w.Entry != nil {
		w.Entry.Keep = min(w.Entry.Keep, c.o.Keep)
	}
	known := c.view(name)
	fence, err := c.o.Tier.Write(ctx, c.key(name), w)
	if err != nil {
		return 0, err
	}
	if fence <= known.seen {
		c.lose(known.turns)
	}
	c.noteOwn(change{name: name, fence: fence})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seenLocked(name, fence, !w.Expire || w.Entry != nil)
	for _, s := range c.subs[name] { // the push may come much later
		s.pushed = max(s.pushed, fence)
	}
	return fence, nil
}

// counted counts an error of the Tier.
func (c *Client) counted(err error) error {
	if errors.Is(err, fleet.ErrUnavailable) {
		c.count.unavailable.Add(1)
	}
	return err
}

// watcher is the Client as the Tier sees it.
type watcher Client

var _ fleet.Watcher = (*watcher)(nil)

func (w *watcher) Changed(name string, fence uint64, removed bool) {
	c := (*Client)(w)
	c.count.pushes.Add(1)
	c.mu.Lock()
	c.seenLocked(name, fence, removed)
	for _, s := range c.subs[name] {
		s.pushed = max(s.pushed, fence)
		s.wakeLocked()
	}
	own := c.isOwnLocked(change{name: name, fence: fence})
	c.mu.Unlock()
	if c.o.Hooks.Changed != nil && !own {
		c.o.Hooks.Changed(name, fence, removed)
	}
}

func (w *watcher) Released(name string) {
	c := (*Client)(w)
	c.count.pushes.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs[name] {
		s.wakeLocked()
	}
}

func (w *watcher) Tagged(tag string, seq uint64) {
	c := (*Client)(w)
	c.told(c.o.Hooks.Tagged, tag, seq, false)
}

func (w *watcher) Expired(tag string, seq uint64) {
	c := (*Client)(w)
	c.told(c.o.Hooks.Expired, tag, seq, true)
}

// told notes a push about a tag, and passes it to the owner's hook if it is of
// another instance.
func (c *Client) told(hook func(string), tag string, seq uint64, expired bool) {
	c.count.pushes.Add(1)
	c.tagged(tag, seq, expired)
	c.mu.Lock()
	own := c.isOwnLocked(change{name: tag, tag: seq})
	c.mu.Unlock()
	if hook != nil && !own {
		hook(tag)
	}
}

func (w *watcher) Lost() { (*Client)(w).wakeAll(false) }

// Recovered: who waited was woken at Lost, and pushes came all the time.
func (w *watcher) Recovered() { (*Client)(w).hurry() }

func (w *watcher) Reset() {
	c := (*Client)(w)
	c.count.resets.Add(1)
	c.wakeAll(true)
	if c.o.Hooks.Reset != nil {
		c.o.Hooks.Reset()
	}
	c.hurry()
}

// wakeAll wakes who waits. If something may have been missed, what subscriptions have
// read before counts as overtaken.
func (c *Client) wakeAll(missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missed {
		c.synced, c.tagSeq = false, 0
		c.missed++
		clear(c.own)
	}
	for _, subs := range c.subs {
		for _, s := range subs {
			s.missed = s.missed || missed
			s.wakeLocked()
		}
	}
}

// maxJitter bounds how much longer waiters wait than for the lease's end, so
// that they do not all ask at once.
const maxJitter = 50 * time.Millisecond

// Jitter is by how much longer one waits who does so for d. It is a variable for
// the simulator, whose histories have no other chance than their seed's.
var Jitter = func(d time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(d/4+time.Millisecond, maxJitter)))
}
