package fleetclient

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A Lease is the right to load a key. It is renewed every third of its duration
// until it is settled.
type Lease struct {
	c     *Client
	name  string
	fence uint64
	lost  func() // called if the lease is lost; may be nil
	since time.Time
	turn  uint64 // of the engine's history
	grant grant  // the zero grant if the lease is not the Subscription's last one

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	over  bool        // guarded by mu: settled, or given up
	gone  bool        // guarded by mu: lost
}

// Hold starts renewing the lease that Ask was granted. lost, if not nil, is
// called once if a renewal is refused.
func (s *Subscription) Hold(fence uint64, lost func()) *Lease {
	l := &Lease{c: s.c, name: s.name, fence: fence, lost: lost, since: time.Now()}
	if s.lease.fence == fence {
		l.grant = s.lease
	}
	_, l.turn = s.c.numbers()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.c.o.Lease/3, l.extend)
	return l
}

// Fence returns the lease's fence.
func (l *Lease) Fence() uint64 { return l.fence }

// Lost reports whether a renewal was refused.
func (l *Lease) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// extend renews the lease. It runs on the timer's goroutine, at most one call at
// a time.
func (l *Lease) extend() {
	l.mu.Lock()
	over := l.over || l.gone
	l.mu.Unlock()
	if over {
		return
	}
	l.c.count.extended.Add(1)
	ok, err := l.c.o.Tier.Extend(context.Background(), l.c.key(l.name), l.fence, l.c.o.Lease)
	_ = l.c.counted(err) // the next renewal may succeed; if not, the lease expires
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	if ok || err != nil {
		l.timer.Reset(l.c.o.Lease / 3)
		l.mu.Unlock()
		return
	}
	l.gone = true
	l.mu.Unlock()
	l.c.count.lost.Add(1)
	if l.lost != nil {
		l.lost()
	}
}

// end stops the renewals. It returns false if they were already stopped.
func (l *Lease) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.over
	l.over = true
	l.timer.Stop()
	return first
}

// Settle ends the lease with the outcome of the load, and reports whether the
// Tier accepted it. False without an error means that the key was written, or
// loaded under another lease, in between. Only the first Settle or GiveUp counts.
func (l *Lease) Settle(o fleet.Outcome) (bool, error) {
	if !l.end() {
		return false, nil
	}
	// The Tier may have dropped an invalidation by tag that the load does not
	// know of. Then no instance could tell that the entry is out of date.
	if o.Entry != nil && time.Since(l.since) > l.c.o.TagKeep-l.c.o.Keep {
		o = fleet.Outcome{}
	}
	if _, turn := l.c.numbers(); turn != l.turn { // the load's numbers belong to a lost history
		o = fleet.Outcome{}
	}
	if o.Entry != nil { // the report may be long on its way
		e := *o.Entry
		e.Until = l.grant.until(e.Fresh)
		o.Entry = &e
	}
	return l.c.settle(l.name, l.fence, o)
}

// GiveUp is Settle in the background, for loads that are abandoned while they
// run.
func (l *Lease) GiveUp(o fleet.Outcome) {
	if l.end() {
		l.c.inBackground(func() { _, _ = l.c.settle(l.name, l.fence, o) }) // if it fails, the lease expires
	}
}

// settle does not use a caller's context: the load is over, and the Tier has its
// own deadline.
func (c *Client) settle(name string, fence uint64, o fleet.Outcome) (bool, error) {
	void := o.Entry != nil && c.touches(subject{name: name}, everything) != nil
	if void { // it was written here since, and the engine does not know yet
		o = fleet.Outcome{}
	}
	if o.Entry != nil {
		c.sent(o.Entry)
	}
	ok, err := c.o.Tier.Settle(context.Background(), c.key(name), fence, o)
	switch {
	case err != nil:
		_ = c.counted(err)
	case ok && !void:
		c.count.settled.Add(1)
		if o.Entry != nil { // the owner has this value
			c.mu.Lock()
			c.kept.raise(name, fence+1)
			c.mu.Unlock()
		}
	default:
		c.count.refused.Add(1)
	}
	return ok && !void, err
}
