package quota

import (
	"context"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

var _ limit.Limiter = (*Limiter)(nil)

// A Limiter is a fleet-wide rate limit: all instances together keep to one Rate. The
// engine counts the permits, through a [fleet.Meter], by its own clock. An instance leases
// permits in batches sized by its own recent demand, so that most callers are
// admitted without a round trip. Callers that arrive during a round trip share it. If
// the engine has no permits left, the instance remembers when to call it again, so
// refusals cost no round trip either.
//
// # The bound
//
// In a window of any length w, the fleet admits at most Permits/Per·w + Burst. A
// permit is used no later than one Lease after its instance requested it, by the
// instance's monotonic clock, and so no later than one Lease after the engine counted
// it. Permits used between the instants a and a+w were therefore counted between
// a−Lease and a+w. The engine counts in that time at most
//
//	Permits/Per·(w + Lease) + B
//
// where B is the burst in the requests to the engine. B = Burst −
// ⌈Permits/Per·Lease⌉, so the sum is at most the bound. This is the price of a Lease:
// only B permits are available at once; the rest of the burst follows within one
// Lease.
//
// A request whose response is lost or arrives after the Lease, or that is executed
// twice, counts permits that no caller uses: the fleet admits less, never more. A
// wrong clock of an instance has no effect, because no instant leaves the instance.
// The bound rests on these assumptions. The engine forgets nothing: one that restarts
// empty, or fails over to a replica that lags, starts over with a full burst. The
// engine's clock does not jump ahead. During a Lease, the clock of each instance runs as
// fast as the engine's, even if the instance's machine sleeps. No instance is paused between
// its decision and the caller's action.
//
// # Outages
//
// When the engine is unreachable, Terms.OnFailure decides what happens, and Stats
// reports the outage. FailClosed keeps to the bound. With FailLocalShare an instance
// that is cut off adds at most 1/Instances of the rate and of the burst, but a burst
// of at least 1; it begins with 1 permit. If all instances lose the engine at once,
// they admit at most the bound plus one permit per instance. When the engine is back,
// it grants a full burst, because it does not know of the permits that instances took
// locally.
//
// Create one with [NewLimiter]; the zero Limiter is not usable. It is safe for
// concurrent use. It has a goroutine during a call of the engine, and a timer while
// callers wait; Close ends them.
type Limiter struct {
	d    *dispenser
	line *line
}

// NewLimiter returns a Limiter that gets its permits from m. Its error joins a
// [*OptionError] for every option that is out of bounds. m must return soon after its
// context ends.
func NewLimiter(m fleet.Meter, o LimiterOptions) (*Limiter, error) {
	if err := o.validate(m); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	d := newDispenser(m, newLineTerms(o.Terms, o.Queue, o.MaxWait))
	d.shared = true
	return &Limiter{d: d, line: newLine(d, o.Key)}, nil
}

// Acquire takes a permit, waiting for one if necessary. The Permit cannot be given
// back: Release does nothing, whatever the Outcome, because the engine has already
// counted it.
//
// Callers wait in one queue, first come, first served. A caller that cannot have a
// permit in time is refused, at once or as soon as the Limiter knows: with
// limit.WaitTooLong if no permit comes before the deadline of ctx, with
// limit.RateExceeded if none comes within MaxWait or the queue is full. The Limiter
// cannot foresee what other instances take, so it may refuse late. A caller that has
// waited MaxWait for a response of the engine, or for a permit of the local share
// during an outage, is rejected with limit.QueueTimeout. A limit.Background caller
// never waits for a permit: if there is none it is refused with limit.NoSpare. With
// FailClosed an outage returns an [*OutageError].
//
// RetryAfter is the time until the engine may be called again and the waiting callers
// have had their permits, and up to twice that, but no more than 10 s longer. The engine reports that time. If it granted only some of
// the permits, or would be called again too soon, the time is up to three quarters of
// a Lease.
//
// It returns context.Cause(ctx) if ctx is done, without a permit, and
// ErrLimiterClosed after Close. It ignores a limit.Place.
func (l *Limiter) Acquire(ctx context.Context) (limit.Permit, error) {
	return limit.Permit{}, l.line.take(ctx, true)
}

// TryAcquire is Acquire for a caller that does not wait for a permit, only for the
// engine's response, for at most a Lease. It refuses with limit.RateExceeded where
// Acquire would queue.
func (l *Limiter) TryAcquire(ctx context.Context) (limit.Permit, error) {
	return limit.Permit{}, l.line.take(ctx, false)
}

// Update replaces the options of l, except its Name and its Key. o has the same
// defaults and bounds as in NewLimiter. Leased permits stay valid, and waiting
// callers keep their turn and the MaxWait that they joined with. Permits that the
// engine has counted still count, and come back at the new Rate. All instances must
// be updated: in a window in which their Terms differ or change, the fleet admits at
// most what the highest rate admits in the window and the longest Lease, and the
// largest Burst.
func (l *Limiter) Update(o LimiterOptions) error {
	f := option.Faults{Package: "quota"}
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

// Close rejects all callers with ErrLimiterClosed, including those that wait. It
// waits for a request in flight until ctx ends, and then returns the cause of ctx. It
// gives no permits back: those that were leased are lost. It may be called again.
func (l *Limiter) Close(ctx context.Context) error {
	l.d.shut()
	l.line.shut()
	return wait.For(ctx, l.d.work.Wait)
}

// Timed implements [limit.Timed].
func (l *Limiter) Timed() {}

var _ limit.Timed = (*Limiter)(nil)
