package limit

import (
	"context"
	"time"
)

var _ Limiter = (*Adaptive)(nil)

// An Adaptive is a [Concurrency] that finds its limit: the number of calls in
// progress beyond which the source does not answer more of them, but only each
// of them later. It learns the mean latency by the number of calls in progress,
// finds the knee in that curve, and keeps the limit there. Decision 0009 in
// docs/adr has the algorithm step by step.
//
// What it needs to see: permits held for the length of one call, and released
// with an honest [Outcome]. Calls that Success ends are measured. Dropped calls
// lower the limit when they are more than a tenth. Ignored ones count for
// nothing, unless they were given up after four times the healthy latency: then
// they count as dropped.
//
// The limit grows only when it was reached, and shrinks only when most of it
// was in use. A source that is slower at any number of calls keeps its limit; one
// that can take fewer calls than before gets fewer. To tell the two apart, and
// to know both sides of the knee, the limit goes a little below the knee in some
// windows while more calls want to run: 7 %, or 1 permit.
//
// A source that pauses, for a garbage collection or a checkpoint, keeps its limit:
// a gap in which no call ends, although at least 8 were due, is taken out of the
// latencies if it lasts more than 1.5 mean latencies and at most 1 s, and timeouts in
// it do not count as dropped calls. So is a gap in which this process was descheduled.
// If such gaps take more than about a third of the time, they count as latency. Shorter
// pauses always do: before a source whose pauses are about as long as its calls, the
// limit can be much too low. Within 20 s of a gap no Headroom is used, unless the limit
// is below about 8.
//
// Make one with [NewAdaptive]; the zero Adaptive is not usable. It has no
// goroutine and no timer of its own, so there is nothing to close. It is safe
// for concurrent use, and by several Guards before one source: they share what
// that can take.
type Adaptive struct {
	pool pool
}

// NewAdaptive returns an Adaptive. Its error joins an [*OptionError] for every
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
		dry:       o.DryRun,
		epoch:     time.Now(),
		limit:     o.Initial,
		tuner:     newTuner(o),
	}}, nil
}

// Name returns the name in its options.
func (a *Adaptive) Name() string { return a.pool.name }

// Acquire is [Concurrency.Acquire] with the limit that holds at the moment. A
// Background caller leaves a tenth of it free, rounded down, and at least 1,
// unless the limit is 1. In a dry run Acquire refuses nobody, and returns an
// error only if ctx is done.
func (a *Adaptive) Acquire(ctx context.Context) (Permit, error) { return a.pool.acquire(ctx, 1) }

// AcquireN is [Concurrency.AcquireN], with Max in place of Limit. While the limit
// is below n, the call is admitted once no other runs. To the measurement it is
// n calls of that length.
func (a *Adaptive) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return a.pool.acquire(ctx, n)
}

// TryAcquire is Acquire for a Normal caller that does not wait: it refuses with
// QueueFull where Acquire would queue. In a dry run it refuses nobody.
func (a *Adaptive) TryAcquire() (Permit, error) { return a.pool.tryAcquire() }

// Limit returns the number of permits there are at the moment.
func (a *Adaptive) Limit() int {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.pool.limit
}
