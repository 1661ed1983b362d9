package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

var _ limit.UnitLimiter = (*Budget)(nil)

// A Budget is a limit on units of cost that the whole fleet has together: a token bucket
// in an engine, a [fleet.Ledger]. Each call takes its estimate there, in one round trip, and
// settles it with another one when it ends. It is for calls that take longer than a round
// trip; a [Limiter], which counts calls, leases permits instead.
//
// # The bound
//
// In a window of any length w, the calls of the fleet take at most Permits/Per·w + Burst +
// MaxDebt units, by the engine's clock and without what is forgiven. A request or a
// correction whose response is lost takes units that no call uses: the fleet takes less. The
// assumptions are those of a [Limiter], without a lease. Units that calls lacked when the
// engine was unreachable are taken when it responds again.
//
// # Outages
//
// When the engine is unreachable, OnFailure decides what happens. FailClosed keeps to the
// bound. With FailLocalShare an instance that is cut off takes at most 1/Instances of the
// rate, the burst and the debt, and an outage begins without any units. Corrections that
// would have given units back are lost.
//
// # Waiting
//
// Callers of one instance wait in one queue, first come, first served. Instances do not
// queue for each other: a call that needs many units can be overtaken by small ones of
// another instance, and is then refused after MaxWait.
//
// Create one with [NewBudget]; the zero Budget is not usable. It is safe for concurrent
// use. It has a goroutine during each call of the engine, and Close waits for them.
type Budget struct {
	teller

	queue  []*budgetWaiter // guarded by mu, as all below; the first may call the engine
	queued int             // units that they want
	due    time.Duration   // when the first may have its units
	local  *limit.RateLimiter
	begun  uint64 // the last outage in which local was used
}

// A budgetWaiter is a caller in the queue.
type budgetWaiter struct {
	units int
	first chan struct{} // closed once it is the first in the queue
}

// BudgetStats are the state of a Budget as this instance knows it, and its counters since
// it was created, in units where nothing else is said.
type BudgetStats struct {
	Left     float64        // in the engine, from its last response; negative if units are owed
	Queued   int            // callers that wait
	Admitted uint64         // callers
	Waited   uint64         // callers that were admitted after a wait
	Refused  limit.Refusals // callers
	Returned uint64         // estimated in excess, and given back
	Owed     uint64         // missing in estimates
	Forgiven uint64         // missing, and not taken because of MaxDebt

	// Replaced counts the values of other programs that the engine had under the budget's
	// keys. Each was replaced, and its bucket began full.
	Replaced uint64

	// Outage reports that the last call of the engine failed, so that OnFailure applies.
	// Outages counts how often an outage began. Failed counts failed calls of the engine.
	Outage  bool
	Outages uint64
	Failed  uint64
}

// NewBudget returns a Budget that counts in l. Its error joins a [*OptionError] for every
// option that is out of bounds. l must return soon after its context ends.
func NewBudget(l fleet.Ledger, o BudgetOptions) (*Budget, error) {
	if err := o.validate(l); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	b := &Budget{local: limit.Must(limit.NewRateLimiter(o.share()))}
	b.open(l, &o, 1, 0)
	return b, nil
}

// Acquire takes one unit: see AcquireN.
func (b *Budget) Acquire(ctx context.Context) (limit.Permit, error) { return b.AcquireN(ctx, 1) }

// AcquireN takes n units, waiting for them if necessary. It panics if n is below 1.
//
// A caller that cannot have them in time is refused: with limit.WaitTooLong before the
// deadline of ctx, with limit.RateExceeded within MaxWait or if the queue is full, with
// limit.TooMany if n is above Burst. A limit.Background caller never waits, and is refused
// with limit.NoSpare. RetryAfter is the time until there are enough units if no call takes
// any. With FailClosed an outage returns an [*OutageError]. It returns context.Cause(ctx) if
// ctx is done, and ErrLimiterClosed after Close.
//
// The Permit can be settled. The engine learns of the cost when the Permit is released:
// Release does not wait for it.
func (b *Budget) AcquireN(ctx context.Context, n int) (limit.Permit, error) {
	if n < 1 {
		panic(fmt.Sprintf("quota: AcquireN of %d units", n))
	}
	if ctx.Err() != nil {
		return limit.Permit{}, wait.Cause(ctx)
	}
	terms := b.terms.Load()
	if n > terms.Rate.Burst {
		return limit.Permit{}, b.tooMany(terms, n)
	}
	b.mu.Lock()
	first := len(b.queue) == 0
	b.mu.Unlock()
	if !first {
		return b.wait(ctx, terms, n, 0)
	}
	p, after, err := b.take(ctx, terms, n)
	if after == 0 {
		return b.admitted(p, err, false)
	}
	return b.wait(ctx, terms, n, after)
}

// admitted counts a caller that was admitted unless err is set.
func (b *Budget) admitted(p limit.Permit, err error, waited bool) (limit.Permit, error) {
	if err != nil {
		return limit.Permit{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.Admitted++
	if waited {
		b.count.Waited++
	}
	return p, nil
}

// wait queues for n units, of which the engine has enough after that time; 0 if it is not
// known.
func (b *Budget) wait(ctx context.Context, terms *BudgetOptions, n int, after time.Duration) (limit.Permit, error) {
	background := limit.PriorityOf(ctx) < limit.Low
	deadline, bounded := ctx.Deadline()
	b.mu.Lock()
	now := b.now()
	est := after
	if len(b.queue) > 0 {
		est = max(0, b.due-now) + timeOf(terms.Rate, b.queued-b.queue[0].units+n)
	}
	var reason limit.Reason
	switch {
	case b.closed:
		b.mu.Unlock()
		return limit.Permit{}, ErrLimiterClosed
	case background:
		reason = limit.NoSpare
	case len(b.queue) >= terms.Queue || est > terms.MaxWait:
		reason = limit.RateExceeded
	case bounded && est >= time.Until(deadline):
		reason = limit.WaitTooLong
	}
	if reason != 0 {
		b.mu.Unlock()
		return limit.Permit{}, b.refusal(terms, reason, est)
	}
	w := &budgetWaiter{n, make(chan struct{})}
	b.queue = append(b.queue, w)
	b.queued += n
	if len(b.queue) == 1 {
		close(w.first)
		b.due = later(now, after)
	}
	b.mu.Unlock()
	defer b.leave(w)
	return b.await(ctx, terms, w, now)
}

// refusal is teller.refusal for the callers of all instances, who must not come back
// together.
func (b *Budget) refusal(terms *BudgetOptions, r limit.Reason, after time.Duration) error {
	return b.teller.refusal(terms, r, spread.Known(after))
}

// await is the life of w, which came at that time, in the queue.
func (b *Budget) await(ctx context.Context, terms *BudgetOptions, w *budgetWaiter, came time.Duration) (limit.Permit, error) {
	latest := later(came, terms.MaxWait)
	late := time.NewTimer(latest - came)
	defer late.Stop()
	select {
	case <-w.first:
	case <-ctx.Done():
		return limit.Permit{}, wait.Cause(ctx)
	case <-b.ctx.Done():
		return limit.Permit{}, ErrLimiterClosed
	case <-late.C:
		return limit.Permit{}, b.refusal(terms, limit.QueueTimeout, timeOf(terms.Rate, w.units))
	}
	for {
		if err := b.sleep(ctx); err != nil {
			return limit.Permit{}, err
		}
		p, after, err := b.take(ctx, terms, w.units)
		if after == 0 {
			return b.admitted(p, err, true)
		}
		now := b.now()
		if later(now, after) > latest {
			return limit.Permit{}, b.refusal(terms, limit.RateExceeded, after)
		}
		if deadline, ok := ctx.Deadline(); ok && after >= time.Until(deadline) {
			return limit.Permit{}, b.refusal(terms, limit.WaitTooLong, after)
		}
		b.mu.Lock()
		b.due = later(now, after)
		b.mu.Unlock()
	}
}

// sleep waits until the first in the queue may have its units.
func (b *Budget) sleep(ctx context.Context) error {
	b.mu.Lock()
	left := b.due - b.now()
	b.mu.Unlock()
	if left <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	due := time.NewTimer(left)
	defer due.Stop()
	select {
	case <-due.C:
		return nil
	case <-ctx.Done():
		return wait.Cause(ctx)
	case <-b.ctx.Done():
		return ErrLimiterClosed
	}
}

// leave removes w from the queue.
func (b *Budget) leave(w *budgetWaiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.queue {
		if o != w {
			continue
		}
		b.queue = append(b.queue[:i], b.queue[i+1:]...)
		b.queued -= w.units
		if i == 0 && len(b.queue) > 0 {
			b.due = b.now()
			close(b.queue[0].first)
		}
		return
	}
}

// take is try, or during an outage without.
func (b *Budget) take(ctx context.Context, terms *BudgetOptions, n int) (p limit.Permit, after time.Duration, err error) {
	if p, after, err = b.try(ctx, terms, terms.Key, n); isOutage(ctx, err) {
		p, err = b.without(ctx, terms, n, err)
	}
	return p, after, err
}

// without admits a caller during an outage, as OnFailure says.
func (b *Budget) without(ctx context.Context, terms *BudgetOptions, n int, cause error) (limit.Permit, error) {
	switch terms.OnFailure {
	case FailOpen:
		return limit.Permit{}, nil
	case FailClosed:
		return limit.Permit{}, b.outage(terms, cause)
	}
	outage, _ := b.health.outage()
	share := terms.share()
	b.mu.Lock()
	local := b.local
	if b.begun != outage { // it begins without units
		b.begun = outage
		if n := int(local.Stats().Tokens); n > 0 {
			_, _ = local.AcquireN(context.Background(), n)
		}
	}
	b.mu.Unlock()
	p, err := local.AcquireN(ctx, min(n, share.Burst))
	var refusal *limit.Error
	if errors.As(err, &refusal) {
		return limit.Permit{}, b.teller.refusal(terms, limit.RateExceeded, refusal.RetryAfter) // it is spread already
	}
	if err != nil {
		return limit.Permit{}, err
	}
	p.Settle(n)
	return p, nil
}

// Update replaces the options of b, except its Name and its Key. Units that the engine has
// counted still count, and come back at the new Rate. Waiting callers keep their turn and
// the options they came with. All instances must be updated.
func (b *Budget) Update(o BudgetOptions) error {
	f := option.Faults{Package: "quota"}
	was := b.terms.Load()
	f.Check(o.Name == was.Name, "BudgetOptions.Name", o.Name, "the one it was made with")
	f.Check(o.Key == was.Key, "BudgetOptions.Key", o.Key, "the one it was made with")
	f.Add(o.validate(b.ledger))
	if err := f.Err(); err != nil {
		return err
	}
	o = o.withDefaults()
	b.terms.Store(&o)
	return b.local.Update(o.share())
}

// Rate returns the current Rate, with its Burst.
func (b *Budget) Rate() fleet.Rate { return b.terms.Load().Rate }

// Stats returns a snapshot.
func (b *Budget) Stats() BudgetStats {
	terms := b.terms.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.count
	s.Queued = len(b.queue)
	come := float64(b.now()-b.leftAt) * float64(terms.Rate.Permits) / float64(terms.Rate.Per)
	s.Left = min(b.left+come, float64(terms.Rate.Burst))
	s.Outages, s.Outage = b.health.outage()
	return s
}

// Close refuses all callers with ErrLimiterClosed, including those that wait. It waits for
// requests and corrections in flight until ctx ends, and then returns the cause of ctx.
// Permits that are released later are not settled. It may be called again.
func (b *Budget) Close(ctx context.Context) error { return b.close(ctx) }

// Timed implements [limit.Timed].
func (b *Budget) Timed() {}

var _ limit.Timed = (*Budget)(nil)
