package limit

import (
	"context"
	"time"
)

var _ Limiter = (*Concurrency)(nil)

// A Concurrency gives out a fixed number of permits and keeps a bounded queue
// of callers for the rest. A permit that comes back goes to the caller whose
// turn it is, never to a newcomer, and wakes nobody else. Higher classes (see
// [Priority]) go first; within a class it is first come, first served, until
// the queue has been standing for OverloadAfter, and then last come, first
// served, until it is empty again.
//
// It knows how long its permits were held, and so how long a newcomer would
// wait. A caller that would wait past its own deadline is refused at once rather than
// left to time out in the queue. A queue that is full, or holds more than
// MaxWait's worth of work, refuses the one who would be served last: the
// newcomer, or, with another turned away in its place, one of a lower class,
// or under overload the oldest.
//
// Make one with [NewConcurrency]; the zero Concurrency is not usable. It has
// no goroutine and no timer of its own, so there is nothing to close. It is
// safe for concurrent use, and by several Guards.
type Concurrency struct {
	pool pool
}

// NewConcurrency returns a Concurrency. Its error joins an [*OptionError] for
// every option that is out of bounds.
func NewConcurrency(o ConcurrencyOptions) (*Concurrency, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Concurrency{pool{
		name:      o.Name,
		places:    o.Queue,
		maxWait:   o.MaxWait,
		overAfter: o.OverloadAfter,
		reserve:   o.Reserve,
		epoch:     time.Now(),
		limit:     o.Limit,
	}}, nil
}

// Name returns the name in its options.
func (c *Concurrency) Name() string { return c.pool.name }

// Acquire returns a Permit at once if one is free and nobody waits for it;
// else it waits in the queue.
//
// It refuses at once with QueueFull or WaitTooLong, while it waits with
// Displaced, and after MaxWait in the queue with QueueTimeout. The expected
// wait counts as none before the first permit has come back. A Background
// caller never waits: it is let in if nobody is queued and Reserve permits
// stay free, and else refused with NoSpare.
//
// It returns context.Cause(ctx) if ctx is done, without a permit, even if one
// was free or was handed over at the same instant; the next in the queue has
// it then. The deadline, the [Priority] and the [Place] of ctx are read when
// Acquire is called, and not again while it waits.
func (c *Concurrency) Acquire(ctx context.Context) (Permit, error) { return c.pool.acquire(ctx, 1) }

// AcquireN is Acquire for a call that counts as n: its Permit stands for n
// units, of which there are Limit. A caller keeps its turn until all n are
// free, and nobody passes it, so calls of one unit cannot starve it. It is refused
// with TooMany if n is above Limit. It panics if n is below 1.
func (c *Concurrency) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return c.pool.acquire(ctx, n)
}

// TryAcquire is Acquire for a Normal caller that does not wait: it refuses with
// QueueFull where Acquire would queue.
func (c *Concurrency) TryAcquire() (Permit, error) { return c.pool.tryAcquire() }
