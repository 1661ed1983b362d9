package slow

import (
	"errors"
	"math"
	"sync"
	"time"
)

// ErrSlow is in the chain of every error that a client is cut with.
var ErrSlow = errors.New("weirhttp: the client is too slow")

// Reasons to cut a client.
var (
	ErrSending = &Error{"weirhttp: the client sent its request body too slowly"}
	ErrReading = &Error{"weirhttp: the client read the response too slowly"}
	ErrBlocked = &Error{"weirhttp: the client was the slowest of too many, and other requests were queued"}
)

// An Error is the reason for which a client was cut. It is ErrSlow.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Is reports whether target is ErrSlow.
func (e *Error) Is(target error) bool { return target == ErrSlow }

// A Way is a direction of a body.
type Way uint8

// The ways.
const (
	Up   Way = iota // of a request
	Down            // of a response
	ways
)

// Terms are the rate that a client has to keep up. The zero Terms ask for none.
type Terms struct {
	// MinRate is in bytes per second, none if it is not positive.
	MinRate int64
	// Grace is how long a client may be behind.
	Grace time.Duration
}

// saved is how many graces a client that is ahead saves up at most. So a client
// that was fast at first cannot live on that for hours.
const saved = 3

const (
	// memory is the time, of waiting for the client, over which its speed is
	// averaged: some round trips.
	memory = 200 * time.Millisecond
	// brisk is the speed, in bytes per second, from which on a client is never cut
	// for the sake of others.
	brisk = 128 << 10
	// Until more is known, a client counts as one that was twice as fast for so
	// long. So one that has just begun is cut after those that have stalled.
	unknown = 10 * time.Millisecond
	// burst is the most that is remembered of what a client has moved: a socket's
	// buffer takes megabytes at once of a response that nobody reads.
	burst = 2 * brisk * float64(memory) / float64(time.Second)
)

// A Client is the client of one call, as far as the call waits for it. Set it up
// with Start, and call Close before the call's ResponseWriter is given up: the
// next request may have the connection then. The ways may be used at the same
// time, each by one goroutine.
type Client struct {
	terms Terms
	cut   func(err error, sends, reads bool)

	mu     sync.Mutex
	ways   [ways]pace // guarded by mu
	waits  int        // guarded by mu; ways that wait now
	err    error      // guarded by mu; what it was cut with
	over   bool       // guarded by mu; closed, or cut
	armed  time.Time  // guarded by mu; when timer fires, zero if it does not
	timer  *time.Timer
	crowds []*Crowd  // guarded by mu; those whose permits it holds
	at     time.Time // guarded by mu; when it was cut for others
}

// A pace is one way of a Client.
type pace struct {
	since time.Time     // when the wait began, zero without one
	slack time.Duration // how long it may wait until it is too slow
	bytes float64       // that it has moved lately
	spent float64       // seconds that were waited for them
}

// Start sets c up. cut is called at most once, with the reason and with the ways
// that wait, and never after Close; it ends these waits, must not block, and must
// not call methods of c.
func (c *Client) Start(t Terms, cut func(err error, sends, reads bool)) {
	c.terms, c.cut = t, cut
	for w := range c.ways {
		c.ways[w].slack = t.Grace
	}
}

// Hold says that the call has a permit of each of the limiters of crowds now. It
// is called at most once, while the call waits for nothing.
func (c *Client) Hold(crowds []*Crowd) {
	c.mu.Lock()
	c.crowds = crowds
	c.mu.Unlock()
	for _, crowd := range crowds {
		crowd.add(c)
	}
}

// Begin says that the call waits for the client from now on: for bytes of its
// request, or until it takes n bytes of the response, for which it has the time
// that they take at the minimum rate.
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

// End says that the wait is over, and that n bytes were moved.
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

// worth is how long n bytes take at the minimum rate.
func (c *Client) worth(n int) time.Duration {
	return time.Duration(float64(n) / float64(c.terms.MinRate) * float64(time.Second))
}

// armLocked makes sure that c is looked at no later than at due. The timer is not
// touched by waits that are short: when it fires it looks at what is left. c.mu
// must be held.
func (c *Client) armLocked(now, due time.Time) {
	if !c.armed.IsZero() && !due.Before(c.armed) {
		return
	}
	c.armed = due
	if c.timer == nil {
		c.timer = time.AfterFunc(due.Sub(now), c.look)
	} else {
		c.timer.Reset(due.Sub(now))
	}
}

// look is the timer: it cuts c if c has been too slow.
func (c *Client) look() {
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

// cutLocked cuts c. It is done under the lock, as after Close the connection
// belongs to another request. c.mu must be held.
func (c *Client) cutLocked(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	c.cut(err, !c.ways[Up].since.IsZero(), !c.ways[Down].since.IsZero())
}

// Err returns the reason for which c was cut, nil if it was not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Endless says that the answer goes on without an end: it has no rate, and its
// permit is another one now.
func (c *Client) Endless() {
	c.mu.Lock()
	c.terms.MinRate = 0
	c.mu.Unlock()
	c.Leave()
}

// Leave says that the call's permit was given back.
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

// Close ends c. cut is not called any more. It may be called again.
func (c *Client) Close() {
	c.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// speed returns how fast c is at the moment, in bytes per second, and whether it is
// waited for at all.
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
