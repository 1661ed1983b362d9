package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// ClientBudgetFleet makes the ClientBudgets of several instances one: a client has its
// units once for all of them; see quota.KeyedBudget. A call that a client pays for then
// costs two requests to the engine: one before it, and one after it if it did not cost what
// was estimated.
//
// The engine gets a digest of a client's key. It counts only clients that have spent units
// which have not come back yet, and each instance has a place for Keys of them: while these
// are taken, new clients of an address share one budget there as well.
type ClientBudgetFleet struct {
	// Ledger is where they count, such as that of the fleet's Tier. nil means separate
	// counts.
	Ledger fleet.Ledger
	// Namespace separates users of one Ledger. ClientBudgets with the same Namespace and
	// the same Name count together. Empty means "http".
	Namespace string
	// OnFailure decides what happens while the Ledger is unreachable. It is required.
	// With quota.FailClosed clients get 503.
	OnFailure quota.FailureMode
	// Instances is the maximum number of instances, for quota.FailLocalShare, where it is
	// required: from 1 to 10,000.
	Instances int
}

// keyedOptions returns the options of the budget that the instances share.
func (o ClientBudgetOptions) keyedOptions() quota.KeyedBudgetOptions {
	debt := o.MaxDebt
	o = o.withDefaults()
	return quota.KeyedBudgetOptions{
		Name: o.Name, Namespace: cmp.Or(o.Fleet.Namespace, defaultNamespace) + "/client budget/" + o.Name,
		Rate: fleet.Rate{Permits: o.Units, Per: o.Per, Burst: o.Burst}, MaxDebt: debt,
		OnFailure: o.Fleet.OnFailure, Instances: o.Fleet.Instances,
		Keys: min(o.Keys+max(o.Keys, minShares), maxKeys), // as many as have a place in known
	}
}

// adoptFleet adds the faults of Fleet to f. The other options are valid.
func (o ClientBudgetOptions) adoptFleet(f *option.Faults) {
	if o.Fleet.Ledger == nil {
		return
	}
	_, err := quota.NewKeyedBudget(o.Fleet.Ledger, o.keyedOptions())
	for _, err := range unjoined(err) {
		var e *OptionError
		if errors.As(err, &e) {
			f.Check(false, "Fleet."+strings.TrimPrefix(e.Field, "KeyedBudgetOptions."), e.Value, e.Bound)
		}
	}
}

// payShared is pay in a fleet. The tables decide under which name a client counts, as they
// do without a fleet: so made-up clients take a bounded number of names in the engine. Only
// the engine decides whether there are enough units.
func (b *ClientBudget) payShared(ctx context.Context, from payer, n int) (*bill, error) {
	p := b.bill()
	_, _, at := b.take(from, n, p)
	var err error
	if p.permit, err = b.shared.AcquireN(ctx, at, n); err == nil {
		return p, nil
	}
	p.undo()
	if errors.Is(err, quota.ErrLimiterClosed) {
		err = ErrClosed
	}
	return nil, err
}

// Close waits until the fleet knows what the calls that have ended cost, or until ctx ends,
// and then returns the cause of ctx. Calls that start later fail. Without a fleet it does
// nothing. It may be called again.
func (b *ClientBudget) Close(ctx context.Context) error {
	if b.shared == nil {
		return nil
	}
	return b.shared.Close(ctx)
}

// waits reports whether pay waits for the fleet.
func (i invoice) waits() bool { return i.budget != nil && i.budget.shared != nil && i.from.key != "" }

// pays makes the client that leads f pay, and reports whether f goes on to its call. If the
// client has not enough units, that is the end of f for this client alone: the callers that
// joined have to start another call, which one of them pays for.
func (f *flight) pays(ctx context.Context) bool {
	if !f.ticket.due.waits() {
		return true
	}
	err := f.ticket.pay(ctx)
	switch {
	case err == nil:
		return true
	case errors.Is(err, limit.ErrLimited) && !errors.Is(err, fleet.ErrUnavailable):
		f.end(func() {
			f.err = err
			for _, w := range f.waiting {
				w.released = w.payer != f.ticket.due.from.key
			}
		})
	default:
		f.fail(err)
	}
	return false
}

// maxYields is how often a request that waited for a call which its client could not pay
// for waits for another one, until that counts as a round.
const maxYields = 64

// yield is called when c has waited for a call that was not made, because the client that
// started it could not pay.
func (c *call) yield() {
	if c.yields < maxYields {
		c.yields++
		c.rounds--
	}
}
