package weirhttp

import (
	"github.com/weir-go/weir/internal/buckets"
	"github.com/weir-go/weir/limit"
)

// A bill is what a client has paid for one call, or is about to. It is nil for a call that
// costs its client nothing.
type bill struct {
	buckets.Bill               // empty in a fleet if this instance alone would have refused the call
	budget       *ClientBudget // set before it is used, as is permit
	permit       limit.Permit  // of the fleet, else the zero Permit
}

// bill returns an empty bill of b.
func (b *ClientBudget) bill() *bill {
	return &bill{Bill: buckets.Bill{Sums: &b.sums}, budget: b}
}

// settle sets what the call has cost.
func (p *bill) settle(units int) {
	if p == nil {
		return
	}
	p.permit.Settle(units)
	p.Settle(units, p.budget.now())
}

// end settles p for good. It may be called again, and does nothing then.
func (p *bill) end(units int) {
	if p == nil {
		return
	}
	p.permit.Settle(units)
	p.permit.Release(limit.Success)
	p.End(units, p.budget.now())
}

// undo returns everything, for a call that was not made.
func (p *bill) undo() { p.end(0) }
