package slow

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/alarm"
)

// ErrSlow is in the error chain of every error with which a client is cut off.
var ErrSlow = errors.New("weirhttp: the client is too slow")

// Reasons for cutting off a client.
var (
	ErrSending = &Error{"weirhttp: the client sent its request body too slowly"}
	ErrReading = &Error{"weirhttp: the client read the response too slowly"}
	ErrBlocked = &Error{"weirhttp: the client was the slowest of too many, and other requests were queued"}
)

// An Error is the reason why a client was cut off. It matches ErrSlow.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Is reports whether target is ErrSlow.
func (e *Error) Is(target error) bool { return target == ErrSlow }

// A Way is a direction of a body.
type Way uint8

// The directions.
const (
	Up   Way = iota // a request body
	Down            // a response body
	ways
)

// Terms define the rate that a client has to keep up. The zero Terms require
// none.
type Terms struct {
	// MinRate is in bytes per second; 0 or less means no minimum.
	MinRate int64
	// Grace is how long a client may be behind.
	Grace time.Duration
}

// saved is the most credit, in graces, that a fast client can save up. So a
// client that was fast at first cannot be slow for hours.
const saved = 3

const (
	// memory is the time spent waiting for the client over which its speed is
	// averaged: a few round trips.
	memory = 200 * time.Millisecond
	// brisk is the speed, in bytes per second, from which a client is never cut
	// off for the sake of others.
	brisk = 128 << 10
	// A new client counts as having moved at twice brisk for this long. So one
	// that has just begun is cut off after those that have stalled.
	unknown = 10 * time.Millisecond
	// burst is the most that is remembered of the bytes a client has moved: a
	// socket buffer accepts megabytes at once of a response that the client does
	// not read.
	burst = 2 * brisk * float64(memory) / float64(time.Second)
)

// A Client is the client of one call, for the purpose of waiting on it. Set it up
// with Start, and call Close before the call's ResponseWriter is released,
// because the next request may then use the connection. The directions may be
// used at the same time, each by one goroutine.
type Client struct {
	terms Terms
	alarm *alarm.Alarm
	cut   func(err error, sends, reads bool)

	mu     sync.Mutex
	ways   [ways]pace // guarded by mu
	waits  int        // guarded by mu; directions waiting now
	err    error      // guarded by mu; the error it was cut off with
	over   bool       // guarded by mu; closed, or cut off
	armed  time.Time  // guarded by mu; when Due is called, zero if it is not
	crowds []*Crowd   // guarded by mu; the crowds of the limiters whose permits it holds
	at     time.Time  // guarded by mu; when it was cut off for others
}

// A pace is the state of one direction of a Client.
type pace struct {
	since time.Time     // when the wait began, zero if there is none
	slack time.Duration // how much longer it may wait before it is too slow
	bytes float64       // bytes moved recently
	spent float64       // seconds spent waiting for them
}

// Start sets up c, which uses the slot of a for the client. cut is called at most once, with the reason and the directions
// that are waiting, and never after Close. It must end these waits, must not
// block, and must not call methods of c.
func (c *Client) Start(t Terms, a *alarm.Alarm, cut func(err error, sends, reads bool)) {
	c.terms, c.alarm, c.cut = t, a, cut
	for w := range c.ways {
		c.ways[w].slack = t.Grace
	}
}

// Hold records that the call now has a permit of the limiter of each crowd. It is
// called at most once, while the call is not waiting.
func (c *Client) Hold(crowds []*Crowd) {
	c.mu.Lock()
	c.crowds = crowds
	c.mu.Unlock()
	for _, crowd := range crowds {
		crowd.add(c)
	}
}

// Begin records that the call starts to wait for the client: for bytes of its
// request, or until it takes n bytes of the response. For the response, it gets
// the time that n bytes take at the minimum rate.
func (c *Client) Begin(w Way, n int) {
	now := time.Now()
	c.mu.Lock()
	p := &c.ways[w]
	p.since = now
	first := c.waits == 0
	c.waits++
	if c.terms.MinRate > 0 && !c.over {
		if w == Down {
			p.slack += c.worth(n)
		}
		c.armLocked(now, now.Add(p.slack))
	}
	crowds := c.crowds
	c.mu.Unlock()
	if first {
		for _, crowd := range crowds {
			crowd.blocks(now)
		}
	}
}

// End records that the wait is over and that n bytes were moved.
func (c *Client) End(w Way, n int) {
	now := time.Now()
	c.mu.Lock()
	p := &c.ways[w]
	waited := now.Sub(p.since)
	p.since = time.Time{}
	keep := math.Exp(-waited.Seconds() / memory.Seconds())
	p.bytes = min(p.bytes*keep+float64(n), burst)
	p.spent = p.spent*keep + waited.Seconds()
	if c.terms.MinRate > 0 {
		p.slack -= waited
		if w == Up {
			p.slack += c.worth(n)
		}
		p.slack = min(p.slack, saved*c.terms.Grace)
	}
	c.waits--
	crowds := c.crowds
	last := c.waits == 0
	if last {
		for _, crowd := range crowds {
			crowd.blocked.Add(-1)
		}
	}
	c.mu.Unlock()
}

// worth returns how long n bytes take at the minimum rate.
func (c *Client) worth(n int) time.Duration {
	return time.Duration(float64(n) / float64(c.terms.MinRate) * float64(time.Second))
}

// armLocked makes sure that Due is called no later than at due. Short waits do not
// change the alarm: Due computes the remaining time. c.mu must be held.
func (c *Client) armLocked(now, due time.Time) {
	if !c.armed.IsZero() && !due.Before(c.armed) {
		return
	}
	c.armed = due
	c.alarm.Set(alarm.Client, c, now, due)
}

// Due implements [alarm.Target]. It cuts off c if c has been too slow.
func (c *Client) Due(alarm.Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = time.Time{}
	if c.over || c.terms.MinRate <= 0 {
		return
	}
	now := time.Now()
	for w := range c.ways {
		p := &c.ways[w]
		if p.since.IsZero() {
			continue
		}
		due := p.since.Add(p.slack)
		if due.After(now) {
			c.armLocked(now, due)
			continue
		}
		if Way(w) == Up {
			c.cutLocked(ErrSending)
		} else {
			c.cutLocked(ErrReading)
		}
		return
	}
}

// cutLocked cuts off c. It runs under the lock, because after Close the
// connection belongs to another request. c.mu must be held.
func (c *Client) cutLocked(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	c.cut(err, !c.ways[Up].since.IsZero(), !c.ways[Down].since.IsZero())
}

// Err returns the reason why c was cut off, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Endless records that the response has no end: it has no minimum rate, and it no
// longer holds the call's permit.
func (c *Client) Endless() {
	c.mu.Lock()
	c.terms.MinRate = 0
	c.mu.Unlock()
	c.Leave()
}

// Leave records that the call's permit was returned.
func (c *Client) Leave() {
	c.mu.Lock()
	crowds := c.crowds
	c.crowds = nil
	if c.waits > 0 {
		for _, crowd := range crowds {
			crowd.blocked.Add(-1)
		}
	}
	c.mu.Unlock()
	for _, crowd := range crowds {
		crowd.remove(c)
	}
}

// Close ends c. cut is not called any more. Close may be called again.
func (c *Client) Close() {
	c.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if !c.armed.IsZero() {
		c.alarm.Clear(alarm.Client)
	}
}

// speed returns the current speed of c, in bytes per second, and whether the call
// is waiting for it at all.
func (c *Client) speed(now time.Time) (rate float64, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate = math.Inf(1)
	for w := range c.ways {
		p := &c.ways[w]
		if p.since.IsZero() {
			continue
		}
		waited := now.Sub(p.since).Seconds()
		keep := math.Exp(-waited / memory.Seconds())
		bytes, spent := p.bytes*keep, p.spent*keep+waited
		rate = min(rate, (bytes+2*brisk*unknown.Seconds())/(spent+unknown.Seconds()))
		waits = true
	}
	return rate, waits && !c.over
}
