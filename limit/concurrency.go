package limit

import (
	"context"
	"time"
)

var _ Limiter = (*Concurrency)(nil)

// A Concurrency hands out a fixed number of permits and queues further callers, up
// to a bound. A released permit goes to the caller whose turn it is, never to a
// newcomer, and wakes no other caller. Tenants (see [Tenant]) that wait get permits for the
// same time. Within a tenant, higher classes (see [Priority]) go first, and within a class, callers are served first come, first served, for as long as waiting
// ends in time. They are served last come, first served, while the oldest of them
// would get its permit after MaxWait, or too late for a call of the mean length to end
// before its deadline, at the measured drain rate; or before callers without a deadline
// leave, as far as earlier ones show it; or has waited for OverloadAfter, if that is set.
//
// A Concurrency measures how long its permits are held, and so can estimate how
// long a newcomer would wait. A caller that would wait past its own deadline is
// rejected at once instead of timing out in the queue. A queue that is full, or
// holds more than MaxWait's worth of work, rejects the caller that would be served
// last. Usually that is the newcomer. If a caller of a lower class is waiting, or under
// overload an older caller, that caller is displaced instead. With several tenants, it is a caller of the
// tenant that has the most units waiting and in use for its weight.
//
// While most calls end after their callers have left (see [Permit.Abandon]), or as Dropped,
// and take longer than usual, the limit is too high to be of use: the source works for
// no caller, and clients that retry keep it so. Then, if MinLimit is set, the limit falls, down to MinLimit, until
// calls end in time again, grows as long as they do, and is Limit again when no caller has
// waited and no call was late for 30 s.
//
// Create one with [NewConcurrency]; the zero Concurrency is not usable. It has no
// goroutine and no timer, so there is nothing to close. It is safe for concurrent
// use, and several Guards may share it.
type Concurrency struct {
	pool pool
}

// NewConcurrency returns a Concurrency, or an error that joins an [*OptionError] for
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
		mostRetry: o.MaxRetryAfter,
		epoch:     time.Now(),
		limit:     o.Limit,
		whole:     o.Limit,
		least:     o.MinLimit,
		onStorm:   o.OnStorm,
	}}, nil
}

// Name returns the name in its options.
func (c *Concurrency) Name() string { return c.pool.name }

// Acquire returns a Permit at once if one is free and no other caller waits;
// otherwise it waits in the queue.
//
// It is rejected at once with QueueFull or WaitTooLong, during the wait with
// Displaced, and after MaxWait in the queue with QueueTimeout. Until the first
// permit has been released, the expected wait is taken as zero. A Background
// caller never waits: it is admitted if no caller is queued and Reserve permits
// stay free, and otherwise rejected with NoSpare.
//
// If ctx is done, Acquire returns context.Cause(ctx) and no permit, even if one
// was free or was granted at the same instant; that permit goes to the next caller
// in the queue. Acquire reads the deadline, the [Priority], the [Tenant] and the [Place] of
// ctx once, when it is called.
func (c *Concurrency) Acquire(ctx context.Context) (Permit, error) {
	return c.pool.acquire(ctx, 1, false)
}

// AcquireN is Acquire for a call that counts as n: its Permit stands for n of the
// Limit units. A caller keeps its turn until all n are free, and no other passes it,
// so calls of one unit cannot starve it. It is rejected with TooMany if n is above
// Limit. AcquireN panics if n is below 1.
//
// Its Permit can be settled: units in excess are free at once, and units that the
// estimate lacked are in use from then on, even if they were not free. So more than
// Limit units can be in use: as many as the running calls lacked, for each of them at
// most Limit less its estimate. Nothing is owed after Release.
func (c *Concurrency) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return c.pool.acquire(ctx, n, true)
}

// TryAcquire is Acquire for a Normal caller that does not wait: where Acquire would
// queue, TryAcquire rejects with QueueFull.
func (c *Concurrency) TryAcquire() (Permit, error) { return c.pool.tryAcquire() }
