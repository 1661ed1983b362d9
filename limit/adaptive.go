package limit

import (
	"context"
	"time"
)

var _ Limiter = (*Adaptive)(nil)

// An Adaptive is a [Concurrency] that finds its limit: the number of concurrent
// calls beyond which throughput no longer grows and only latency does. It learns
// the mean latency for each number of calls in progress, finds the knee in that
// curve, and keeps the limit there. Decision 0009 in docs/adr describes the
// algorithm step by step.
//
// It needs permits that are held for exactly one call and released with an accurate
// [Outcome]. Calls that end with Success are measured. Dropped calls lower the limit
// when they are more than a tenth of all calls. Ignored calls do not count, unless
// they were abandoned after more than four times the healthy latency: those count
// as dropped.
//
// The limit grows only when it was reached, and shrinks only when most of it was in
// use. A source that becomes slower at any number of calls keeps its limit; a source
// that can handle fewer calls than before gets fewer. To tell the two apart, and to
// measure both sides of the knee, the limit goes a little below the knee in some
// windows (by 7 %, or 1 permit), even while more calls are waiting.
//
// A source that pauses, for a garbage collection or a checkpoint, keeps its limit. A
// gap in which no call ends, although at least 8 were due, is subtracted from the
// latencies if it lasts more than 1.5 mean latencies and at most 1 s, and timeouts in
// it do not count as dropped calls. The same goes for a gap in which this process was
// descheduled. If such gaps take more than about a third of the time, they count as
// latency. Shorter pauses always do: for a source whose pauses are about as long as
// its calls, the limit can be much too low. Within 20 s of a gap no Headroom is used,
// unless the limit is below about 8.
//
// Create one with [NewAdaptive]; the zero Adaptive is not usable. It has no goroutine
// and no timer, so there is nothing to close. It is safe for concurrent use. Several
// Guards of one source can share it, and then share the source's capacity.
type Adaptive struct {
	pool pool
}

// NewAdaptive returns an Adaptive, or an error that joins an [*OptionError] for every
// option that is out of bounds.
func NewAdaptive(o AdaptiveOptions) (*Adaptive, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Adaptive{pool{
		name:      o.Name,
		places:    o.Queue,
		maxWait:   o.MaxWait,
		overAfter: o.OverloadAfter,
		reserve:   -1,
		mostRetry: o.MaxRetryAfter,
		dry:       o.DryRun,
		epoch:     time.Now(),
		limit:     o.Initial,
		tuner:     newTuner(o),
	}}, nil
}

// Name returns the name in its options.
func (a *Adaptive) Name() string { return a.pool.name }

// Acquire is [Concurrency.Acquire] with the current limit. A Background caller leaves
// a tenth of the permits free: rounded down, but at least one, unless the limit is 1. In a dry
// run Acquire rejects no caller, and returns an error only if ctx is done.
func (a *Adaptive) Acquire(ctx context.Context) (Permit, error) { return a.pool.acquire(ctx, 1, false) }

// AcquireN is [Concurrency.AcquireN], with Max instead of Limit. While the limit is
// below n, the call is admitted only when no other runs. It is measured as n calls
// of its length. So use it for calls that put as much load on the source as a few
// others. Tokens, bytes and money say little about the latency of a call: for those,
// wrap the Adaptive in [PerCall]. In a dry run a call of more than Max counts as Max.
func (a *Adaptive) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return a.pool.acquire(ctx, n, true)
}

// TryAcquire is Acquire for a Normal caller that does not wait: where Acquire would
// queue, TryAcquire rejects with QueueFull. In a dry run it rejects no caller.
func (a *Adaptive) TryAcquire() (Permit, error) { return a.pool.tryAcquire() }

// Limit returns the current number of permits.
func (a *Adaptive) Limit() int {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.pool.limit
}
