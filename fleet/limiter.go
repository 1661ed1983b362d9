package fleet

import (
	"context"

	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

var _ limit.Limiter = (*Limiter)(nil)

// A Limiter is a rate limit of the whole fleet: what all instances let in
// together keeps to one Rate. The engine counts, through a [Meter], by its own
// clock. An instance has permits from it in batches, as large as its own demand
// lately, so that most callers are let in without a round trip; callers that
// come while one is in progress share it. Where the engine has none left, that
// is remembered until there may be one again, and a refusal costs no round trip
// either.
//
// # The bound
//
// In a window of any length w, the fleet lets in at most Permits/Per·w + Burst.
// A permit is used at the latest a Lease after its instance asked for it, by
// the instance's monotonic clock, so also at the latest a Lease after the engine
// counted it. What is let in between the instants a and a+w was therefore counted
// between a−Lease and a+w, and of that there is at most
//
//	Permits/Per·(w + Lease) + B
//
// where B is the burst in the questions to the engine. It is
// B = Burst − ⌈Permits/Per·Lease⌉, and so the sum is at most the bound. This is
// what a Lease costs: a burst all at once is only B large, the rest of it comes
// within a Lease more.
//
// A question whose answer is lost, is executed twice, or comes after the Lease,
// counts permits that nobody uses: less is let in, never more. A wrong clock of
// an instance has no effect, as no instant leaves it. What the bound stands on:
// the engine forgets nothing (one that restarts empty, or fails over to a
// replica that lags, begins again with a full burst) and its clock does not
// jump ahead; clocks of instances run, within a Lease, as fast as the engine's,
// also while the machine sleeps; no instance is paused between its decision and
// what the caller then does.
//
// # Outages
//
// When the engine is unreachable, Terms.OnFailure says what happens; Stats tells
// that it does. FailClosed keeps to the bound. With FailLocalShare an instance
// that is cut off adds at most 1/Instances of the rate, and of the burst or 1 if
// that is more; it begins with 1. If the engine is lost for all at once, it is
// so at most the bound and a permit an instance, and when it is back it gives a
// burst of its own, as nobody has told it of the local ones.
//
// Make one with [NewLimiter]; the zero Limiter is not usable. It is safe for
// concurrent use. It has a goroutine while it asks, and a timer while somebody
// waits; Close ends them.
type Limiter struct {
	d    *dispenser
	line *line
}

// NewLimiter returns a Limiter that has its permits from m. Its error joins a
// [*OptionError] for every option that is out of bounds. m must return
// soon after its context ends.
func NewLimiter(m Meter, o LimiterOptions) (*Limiter, error) {
	if err := o.validate(m); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	d := newDispenser(m, newLineTerms(o.Terms, o.Queue, o.MaxWait))
	return &Limiter{d: d, line: newLine(d, o.Key)}, nil
}

// Acquire takes a permit, waiting for one if need be. The Permit cannot be given
// back: Release does nothing, whatever the Outcome, as the engine has counted.
//
// Callers that wait stand in one queue, first come, first served. A caller that cannot
// have a permit in time is refused, at once or as soon as that is known: with
// limit.WaitTooLong if none comes before the deadline of ctx, with limit.RateExceeded
// if none comes within MaxWait, or the queue has no place. What other instances take
// is not known beforehand, so that may be late. A caller that has waited MaxWait for
// an answer, or for a share during an outage, is rejected with limit.QueueTimeout. A
// limit.Background caller never waits for a permit: where there is none it is refused
// with limit.NoSpare. Under FailClosed an outage is an [*OutageError].
//
// RetryAfter is when the engine may be called again, after the waiting callers
// have had their permits: it says so itself, or, where it had only some of the
// permits, or sooner than its questions are to follow each other, it is up to
// three quarters of a Lease.
//
// It returns context.Cause(ctx) if ctx is done, without a permit, and
// ErrLimiterClosed after Close. A limit.Place is not looked at.
func (l *Limiter) Acquire(ctx context.Context) (limit.Permit, error) {
	return limit.Permit{}, l.line.take(ctx, true)
}

// TryAcquire is Acquire for a caller that does not wait for a permit, only for
// the engine's answer, for a Lease at most. It refuses with limit.RateExceeded
// where Acquire would queue.
func (l *Limiter) TryAcquire(ctx context.Context) (limit.Permit, error) {
	return limit.Permit{}, l.line.take(ctx, false)
}

// Update replaces what l was made with, except its Name and its Key. o has the defaults
// and bounds that NewLimiter has. Permits stay out, and callers that wait
// keep their turn, and the wait that was promised to them. What the engine has counted
// still counts, and comes back at the new Rate. All instances must be updated: in a
// window in which their Terms differ, or change, the fleet lets in at most what the
// highest rate admits in the window and the longest Lease, and the largest Burst.
func (l *Limiter) Update(o LimiterOptions) error {
	f := option.Faults{Package: "fleet"}
	f.Check(o.Name == l.d.terms.Load().Name, "LimiterOptions.Name", o.Name, "the one it was made with")
	f.Check(o.Key == l.line.key, "LimiterOptions.Key", o.Key, "the one it was made with")
	f.Add(o.validate(l.d.meter))
	if err := f.Err(); err != nil {
		return err
	}
	o = o.withDefaults()
	l.d.terms.Store(newLineTerms(o.Terms, o.Queue, o.MaxWait))
	l.line.updated()
	return nil
}

// Stats returns a snapshot.
func (l *Limiter) Stats() LimiterStats {
	s := l.d.stats()
	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	s.Queued = l.line.q.n
	if l.d.now() < l.line.until {
		s.Stock = l.line.stock
	}
	return s
}

// Close rejects all callers with ErrLimiterClosed, waiting ones included. It
// waits for a request in flight until ctx ends, and then returns its cause. It
// gives nothing back: permits that were leased are lost. It may be called again.
func (l *Limiter) Close(ctx context.Context) error {
	l.d.shut()
	l.line.shut()
	return wait.For(ctx, l.d.work.Wait)
}
