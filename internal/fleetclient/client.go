// Package fleetclient is one instance's part in a fleet, for one namespace: it
// calls the Tier, holds leases, waits for pushes, and detects answers that were
// overtaken before they could be used. Package weir's Guards and weirhttp are
// built on it.
package fleetclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// Options configure a Client. Everything except the functions in Hooks is
// required.
type Options struct {
	Tier      fleet.Tier
	Namespace string
	Lease     time.Duration // of loads; renewed every third of it
	Keep      time.Duration // the longest time that an entry stays in the Tier
	TagKeep   time.Duration // how long invalidations by tag are recorded: longer than Keep and the longest load
	Recheck   time.Duration // how long the known invalidations are trusted, because a push can be lost without a trace
	Codec     string        // name of the codec: entries of other codecs are not used
	Hooks     Hooks

	// PushValue bounds the bytes of a value that may be pushed; 0 or less: none is
	// pushed or kept. PushMemory bounds the bytes that are kept, and MemoryCap how
	// long after its store a pushed value is used.
	PushValue, PushMemory int
	MemoryCap             time.Duration

	// MaxPending bounds the bytes of invalidations that the engine has not
	// acknowledged. 0 means DefaultMaxPending.
	MaxPending int
}

// Hooks notify the owner of changes by other instances and, if a push arrives
// before the reply, of its own. They are called one at a time, without a lock of
// the Client.
type Hooks struct {
	// Changed reports that entries in memory for name with a lower fence are out
	// of date; if removed is set, they must not be served at all.
	Changed func(name string, fence uint64, removed bool)
	// Tagged reports that entries with the tag are out of date; "" means all
	// entries.
	Tagged func(tag string)
	// Expired reports that entries with the tag are now stale; "" means all
	// entries.
	Expired func(tag string)
	// Reset reports that a change may have been missed, so everything in memory
	// counts as stale.
	Reset func()
	// Pending reports that some invalidations are unacknowledged, or that none
	// are any more. It is called once per transition.
	Pending func(Pending)
}

// A Client is safe for concurrent use. Create one with New.
type Client struct {
	o     Options
	given fleet.Tier // the Tier that Options.Tier wraps
	stop  func()     // ends Watch
	count counters

	breaker *fleet.Breaker            // in front of given, which has none; else nil
	state   func() fleet.BreakerState // of the breaker, this or that of given; nil: in process
	owed    atomic.Int64              // number of pending invalidations; written under mu

	mu      sync.Mutex
	subs    map[string][]*Subscription // guarded by mu
	lastTag uint64                     // guarded by mu: number of the last known invalidation by tag
	tagSeq  uint64                     // guarded by mu: the same, as known since the last Reset
	cleared uint64                     // guarded by mu: number of the last invalidation of the whole namespace
	expired uint64                     // guarded by mu: number of the last expiry of the whole namespace
	closed  bool                       // guarded by mu
	own     map[change]bool            // guarded by mu: this Client's changes whose push has not arrived yet

	synced   bool      // guarded by mu: both numbers were read since the last Reset
	syncedAt time.Time // guarded by mu: when that read was sent
	syncing  *tagRead  // guarded by mu: nil if no read is in flight
	missed   uint64    // guarded by mu: how often changes may have been missed

	busy int           // guarded by mu: number of background tasks, such as giving up leases
	idle chan struct{} // guarded by mu: not nil while Close waits for busy to be 0

	backlog backlog
	history history
	kept    kept
}

// A change is a Write, or if fence is 0, an invalidation by tag.
type change struct {
	name       string
	fence, tag uint64
}

// maxOwn bounds the remembered changes of this Client. The push of a forgotten
// one is treated as another instance's, which costs a load.
const maxOwn = 1 << 12

// noteOwn records a change of this Client.
func (c *Client) noteOwn(ch change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.own) >= maxOwn { // a push that came before noteOwn leaves its change here for good
		for old := range c.own {
			delete(c.own, old)
			break
		}
	}
	c.own[ch] = true
}

// isOwnLocked reports whether a pushed change is this Client's. c.mu must be
// held.
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
	a := given.Abilities()
	var own *fleet.Breaker
	if a.State == nil && !a.InProcess {
		own = fleet.WithBreaker(given, fleet.BreakerOptions{})
		o.Tier, a.State = own, own.State
	}
	o.Tier = survivor{tier: o.Tier}
	c := &Client{o: o, given: given, breaker: own, state: a.State, subs: make(map[string][]*Subscription), own: make(map[change]bool), kept: newKept(&o)}
	var err error
	c.stop, err = o.Tier.Watch(o.Namespace, (*watcher)(c))
	return c, err
}

// Close stops watching, sends the pending invalidations one last time, and waits,
// until ctx ends, for that and for leases being given up. Loads must have ended
// or been canceled before. If invalidations are still pending, they are lost and
// the error is a *fleet.PendingError.
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
		c.hear(false)
	}
	unsent := c.settleUp(ctx)
	if err := c.awaitIdle(ctx); err != nil {
		return errors.Join(err, unsent)
	}
	if c.breaker != nil {
		return errors.Join(c.breaker.Close(ctx), unsent)
	}
	return unsent
}

// awaitIdle waits for what runs in the background.
func (c *Client) awaitIdle(ctx context.Context) error {
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return wait.Cause(ctx)
	}
}

// inBackground runs fn on a goroutine; the Tier's deadline bounds it. Close waits
// for it.
func (c *Client) inBackground(fn func()) {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
	go func() {
		defer c.idled()
		fn()
	}()
}

// idled records the end of a background task.
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

// Tier returns the Tier passed to New.
func (c *Client) Tier() fleet.Tier { return c.given }

// Write changes name for the whole fleet. An answer read before is overtaken. If
// the engine does not acknowledge the write, an invalidation becomes pending (for
// an Expire, an expiry) and the error is a *fleet.PendingError. A pending
// invalidation of the key is sent first; otherwise, other instances could serve
// the value from before it as stale.
func (c *Client) Write(ctx context.Context, name string, w fleet.Write) (fence uint64, err error) {
	c.count.writes.Add(1)
	if len(name) > fleet.MaxName {
		return c.o.Tier.Write(ctx, c.key(name), w) // returns the Tier's error; such a name cannot be stored
	}
	about := subject{name: name}
	expire := w.Expire && w.Entry == nil
	owes := true // ctx comes from the user, and may panic
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

// Put is Write for the result of a load. If the engine does not acknowledge it,
// nothing becomes pending, because nothing has become invalid.
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
		c.sent(w.Entry)
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
	c.kept.raise(name, fence+1)
	for _, s := range c.subs[name] { // the push may arrive much later
		s.pushed = max(s.pushed, fence)
	}
	return fence, nil
}

// sent completes an entry that is sent to the Tier.
func (c *Client) sent(e *fleet.Entry) {
	e.Keep = min(e.Keep, c.o.Keep)
	e.Push = len(e.Data) <= c.o.PushValue
}

// counted counts an error of the Tier and returns it.
func (c *Client) counted(err error) error {
	if errors.Is(err, fleet.ErrUnavailable) {
		c.count.unavailable.Add(1)
	}
	return err
}

// watcher is the Client as a fleet.Watcher.
type watcher Client

var _ fleet.Watcher = (*watcher)(nil)

func (w *watcher) Changed(name string, fence uint64, removed bool) {
	c := (*Client)(w)
	c.count.pushes.Add(1)
	c.mu.Lock()
	c.seenLocked(name, fence, removed)
	c.kept.raise(name, fence)
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

func (w *watcher) Pushed(name string, e fleet.Entry, now uint64) {
	c := (*Client)(w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept.pushed(name, e, now) {
		c.count.pushedKept.Add(1)
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

// told records a push about a tag, and calls the owner's hook if the push comes
// from another instance.
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

func (w *watcher) Lost() {
	(*Client)(w).wakeAll(false)
}

// Recovered only sends what is pending: waiters were woken at Lost, and no push
// was missed.
func (w *watcher) Recovered() {
	(*Client)(w).hear(true)
	(*Client)(w).hurry()
}

func (w *watcher) Reset() {
	c := (*Client)(w)
	c.count.resets.Add(1)
	c.wakeAll(true)
	if c.o.Hooks.Reset != nil {
		c.o.Hooks.Reset()
	}
	c.hurry()
}

// hear discards the kept values, because pushes may be missing, or may have been. If
// on is false, none is kept until it is called again.
func (c *Client) hear(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearLocked(on)
}

func (c *Client) hearLocked(on bool) {
	c.kept.clear()
	c.kept.deaf = !on
}

// wakeAll wakes all waiters, at Lost and at Reset. At Reset changes may have been
// missed: everything that subscriptions have read so far counts as overtaken.
func (c *Client) wakeAll(missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearLocked(missed)
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

// maxJitter bounds the extra time that waiters wait beyond the lease's end, so
// that they do not all call the Tier at once.
const maxJitter = 50 * time.Millisecond

// Jitter returns the extra time added to a wait of d. It is a variable for the
// simulator, whose only randomness is its seed.
var Jitter = func(d time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(d/4+time.Millisecond, maxJitter)))
}
