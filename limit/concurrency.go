package limit

import (
	"context"
	"sync"
	"time"
)

var _ Limiter = (*Concurrency)(nil)

// A Concurrency gives out a fixed number of permits and keeps a bounded queue
// of callers for the rest. First come, first served: a permit that comes back
// goes to the caller at the head, never to a newcomer, and wakes nobody else.
//
// It knows how long its permits were held, and so how long a newcomer would
// wait. Who would wait past its own deadline, or past MaxWait, is refused at
// once rather than left to time out in the queue.
//
// Make one with [NewConcurrency]; the zero Concurrency is not usable. It has
// no goroutine and no timer of its own, so there is nothing to close. It is
// safe for concurrent use.
type Concurrency struct {
	name    string
	places  int           // in the queue
	maxWait time.Duration // forever if unbounded
	reserve int
	epoch   time.Time // what instants below are counted from

	mu       sync.Mutex
	limit    int           // guarded by mu
	inUse    int           // guarded by mu; at limit whenever the queue is not empty
	slots    []slot        // guarded by mu; as many as were ever in use at once
	free     []uint32      // guarded by mu; the slots that hold no permit
	q        queue         // guarded by mu
	drain    drain         // guarded by mu
	lastOut  time.Duration // guarded by mu; when a permit was last given out
	admitted uint64        // guarded by mu, as are the counters below
	waited   uint64
	left     uint64
	refused  Refusals
}

// NewConcurrency returns a Concurrency. Its error joins an [*OptionError] for
// every option that is out of bounds.
func NewConcurrency(o ConcurrencyOptions) (*Concurrency, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Concurrency{
		name:    o.Name,
		places:  o.Queue,
		maxWait: o.MaxWait,
		reserve: o.Reserve,
		epoch:   time.Now(),
		limit:   o.Limit,
	}, nil
}

// Acquire returns a Permit at once if one is free and nobody waits for it;
// else it waits in the queue.
//
// It refuses at once with QueueFull or WaitTooLong, and after MaxWait in the
// queue with QueueTimeout. The expected wait counts as none before the first
// permit has come back. A Background caller never waits: it is let in if
// nobody is queued and Reserve permits stay free, and else refused with
// NoSpare.
//
// It returns context.Cause(ctx) if ctx is done, without a permit, even if one
// was free or was handed over at the same instant; the next in the queue has
// it then. The deadline and the Priority of ctx are read when Acquire is
// called, and not again while it waits.
func (c *Concurrency) Acquire(ctx context.Context) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	now := c.now()
	c.mu.Lock()
	// With more than the reserve free there is room for every class, and the
	// context is not asked.
	if c.q.n == 0 && c.limit-c.inUse > c.reserve {
		p := c.admitLocked(now)
		c.mu.Unlock()
		return p, nil
	}
	c.mu.Unlock()
	return c.acquireSlow(ctx)
}

// acquireSlow is Acquire where permits are short. The steps:
//
//  1. Ask ctx, outside the lock, as it may be the user's code.
//  2. Under the lock take a permit, or refuse, or join the queue.
//  3. Wait for the first of grant, end of ctx and MaxWait.
//  4. Settle under the lock which of them it was.
func (c *Concurrency) acquireSlow(ctx context.Context) (Permit, error) {
	background := PriorityOf(ctx) <= Background
	deadline, ok := ctx.Deadline()
	left := forever
	if ok {
		left = time.Until(deadline)
	}
	now := c.now()

	c.mu.Lock()
	if spare := c.limit - c.inUse; c.q.n == 0 && (spare > c.reserve || spare > 0 && !background) {
		p := c.admitLocked(now)
		c.mu.Unlock()
		return p, nil
	}
	wait := c.waitLocked(now)
	var reason Reason
	switch {
	case background:
		reason = NoSpare
	case c.q.n >= c.places || wait > c.maxWait:
		reason = QueueFull
	case wait >= left: // at the very deadline a permit is of no use
		reason = WaitTooLong
	default:
		w := &waiter{ready: make(chan struct{})}
		c.q.push(w)
		c.mu.Unlock()
		return c.await(ctx, w, left)
	}
	retry := c.refuseLocked(reason, wait)
	c.mu.Unlock()
	return Permit{}, &Error{Limiter: c.name, Reason: reason, RetryAfter: retry}
}

// await is Acquire in the queue, with left to go until the deadline of ctx.
func (c *Concurrency) await(ctx context.Context, w *waiter, left time.Duration) (Permit, error) {
	var timeout <-chan time.Time
	if c.maxWait < forever {
		d := c.maxWait
		if left <= d {
			// ctx is to end first. The timer is for a context that does not
			// end at its deadline, such as that of a load with many callers.
			d++
		}
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-w.ready:
		if ctx.Err() == nil {
			return Permit{from: c, id: w.id}, nil
		}
	case <-ctx.Done():
	case <-timeout:
		if ctx.Err() == nil {
			return c.timeOut(w)
		}
	}
	c.leave(w)
	return Permit{}, context.Cause(ctx)
}

// leave takes w, whose context is done, out of the queue. A permit may be
// handed over while w is on its way out:
//
//	W: ctx ends, and W's select takes ctx.Done
//	R: releases; W is still at the head, so R pops it and grants it the permit
//	W: takes the lock to leave, and is in the queue no more
//
// Nobody would release that permit, so W gives it back, to the next in the
// queue if there is one.
func (c *Concurrency) leave(w *waiter) {
	now := c.now()
	var g grants
	c.mu.Lock()
	c.left++
	if w.granted {
		c.admitted--
		c.waited--
		c.takeBackLocked(w.id, Unused, now, &g)
	} else {
		c.q.remove(w)
	}
	c.mu.Unlock()
	g.wake()
}

// timeOut refuses w, whose time in the queue is over, unless it was granted a
// permit at the last moment: w still has a use for it.
func (c *Concurrency) timeOut(w *waiter) (Permit, error) {
	now := c.now()
	c.mu.Lock()
	if w.granted {
		c.mu.Unlock()
		return Permit{from: c, id: w.id}, nil
	}
	c.q.remove(w)
	retry := c.refuseLocked(QueueTimeout, c.waitLocked(now))
	c.mu.Unlock()
	return Permit{}, &Error{Limiter: c.name, Reason: QueueTimeout, RetryAfter: retry}
}

// TryAcquire is Acquire for a Normal caller that does not wait: it refuses with
// QueueFull where Acquire would queue.
func (c *Concurrency) TryAcquire() (Permit, error) {
	now := c.now()
	c.mu.Lock()
	if c.q.n == 0 && c.inUse < c.limit {
		p := c.admitLocked(now)
		c.mu.Unlock()
		return p, nil
	}
	retry := c.refuseLocked(QueueFull, c.waitLocked(now))
	c.mu.Unlock()
	return Permit{}, &Error{Limiter: c.name, Reason: QueueFull, RetryAfter: retry}
}
