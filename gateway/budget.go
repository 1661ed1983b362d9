package gateway

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// A Budget limits what calls cost together, in units of [Upstream.Cost] or [Route.Cost]: a
// token bucket. Calls wait for the units of their estimate, up to QueueWait, and get 503
// with a true Retry-After if that is not enough. Units that the response shows to be in
// excess go back; units that were missing are owed, and later calls wait for them.
type Budget struct {
	// Units is how many units come back in Per, from 1 to limit.MaxUnits.
	Units int
	// Per is the period of Units. 0 means 1 minute, at most 24 h.
	Per time.Duration
	// Burst is how many units may be spent at once. A call whose estimate is above it gets
	// 413. 0 means Units.
	Burst int
	// MaxDebt is how many units may be owed; what is above it is forgiven. 0 means Burst,
	// negative none.
	MaxDebt int
	// Queue is how many calls may wait for units. 0 means 1,024, negative none. QueueWait
	// is how long they may wait. 0 means 10 s; negative means that only the client's own
	// deadline counts.
	Queue     int
	QueueWait time.Duration
	// Fleet makes all gateways of Config.Fleet spend this Budget together; see
	// quota.Budget. The Tier must count units (fleet.Abilities), and Fleet.RateFailure says
	// what happens without it. All gateways must have the same Budget, under the same name
	// of the upstream or route.
	Fleet bool
}

// options returns the options of b's limiter.
func (b Budget) options(name string) limit.RateOptions {
	return limit.RateOptions{
		Name: name, PerSecond: float64(b.Units) / cmp.Or(b.Per, time.Minute).Seconds(), Burst: cmp.Or(b.Burst, b.Units),
		MaxDebt: b.MaxDebt, Queue: b.Queue, MaxWait: b.QueueWait,
	}
}

func (b *Budget) validate(f *faults, at string) {
	if b == nil {
		return
	}
	f.count(at+".Units", b.Units, 1, limit.MaxUnits)
	f.span(at+".Per", b.Per, 0, longest)
	f.count(at+".Burst", b.Burst, 0, limit.MaxUnits)
	f.count(at+".MaxDebt", b.MaxDebt, -1, limit.MaxUnits)
	f.count(at+".Queue", b.Queue, -1, most)
	f.span(at+".QueueWait", b.QueueWait, -1, longest)
}

// validateShared checks what b needs of the fleet.
func (b *Budget) validateShared(f *faults, at string, all *Fleet) {
	if b != nil && b.Fleet {
		f.countsUnits(at, all)
	}
}

// countsUnits checks what the budget at that place needs of the fleet.
func (f *faults) countsUnits(at string, all *Fleet) {
	if !f.Check(all != nil, at+".Fleet", true, "false without Config.Fleet") {
		return
	}
	ok := all.Tier == nil || all.Tier.Abilities().Ledger != nil
	f.Check(ok, at+".Fleet", true, "false, because the Tier does not count units")
	f.Check(all.RateFailure != 0, "Fleet.RateFailure", all.RateFailure, "set, as "+at+".Fleet is")
}

// A purse is a Budget that can change, or come and go, while it is in use.
type purse struct {
	own bool                // it is a route's; set before it is used
	now atomic.Pointer[pot] // read by every call and replaced by Update: a mutex would be one more for all to share
}

// A pot is the limiter of a Budget: one of these is not nil.
type pot struct {
	own    *limit.RateLimiter
	shared *quota.Budget
}

// limiter returns the one that is not nil.
func (l *pot) limiter() limit.UnitLimiter {
	if l.shared != nil {
		return l.shared
	}
	return l.own
}

var _ limit.UnitLimiter = (*purse)(nil)

// Acquire implements limit.Limiter.
func (p *purse) Acquire(ctx context.Context) (limit.Permit, error) { return p.AcquireN(ctx, 1) }

// AcquireN implements limit.UnitLimiter. Without a Budget it admits every call.
func (p *purse) AcquireN(ctx context.Context, n int) (limit.Permit, error) {
	l := p.now.Load()
	if l == nil {
		return limit.Permit{}, nil
	}
	permit, err := limit.AcquireN(ctx, l.limiter(), n)
	if err != nil {
		return permit, owned(err, p.own)
	}
	return permit, nil
}

// set makes p limit as b does, which may be nil and is valid, for the upstream or route of
// that kind and name. Units that were spent stay spent, unless there was no Budget before,
// or it becomes that of the fleet or ceases to be.
func (p *purse) set(kind, name string, b *Budget, f *Fleet) {
	was := p.now.Load()
	switch {
	case b == nil:
		p.now.Store(nil)
	case b.Fleet && was != nil && was.shared != nil:
		_ = was.shared.Update(b.shared(kind, name, f)) // it is valid, and has the same name
	case b.Fleet:
		p.now.Store(&pot{shared: limit.Must(quota.NewBudget(f.Tier.Abilities().Ledger, b.shared(kind, name, f)))})
	case was != nil && was.own != nil:
		_ = was.own.Update(b.options(name))
	default:
		p.now.Store(&pot{own: limit.Must(limit.NewRateLimiter(b.options(name)))})
	}
}

// shared returns the options of b's limit in f.
func (b Budget) shared(kind, name string, f *Fleet) quota.BudgetOptions {
	return quota.BudgetOptions{
		Name: name, Key: fleet.Key{Namespace: f.Namespace, Name: "budget/" + kind + "/" + name},
		Rate:    fleet.Rate{Permits: b.Units, Per: cmp.Or(b.Per, time.Minute), Burst: b.Burst},
		MaxDebt: b.MaxDebt, OnFailure: f.RateFailure, Instances: f.Instances, Queue: b.Queue, MaxWait: b.QueueWait,
	}
}

// close waits for what the fleet has not been informed of.
func (p *purse) close(ctx context.Context) error {
	if l := p.now.Load(); l != nil && l.shared != nil {
		return l.shared.Close(ctx)
	}
	return nil
}

// BudgetStats are the state of a Budget and its counters, in units where nothing else is
// said.
type BudgetStats struct {
	PerSecond float64 `json:"per_second"` // units refilled per second
	Burst     int     `json:"burst"`      // most units that can be spent in one burst
	Left      float64 `json:"left"`       // negative if some are owed
	Queued    int     `json:"queued"`     // calls that wait
	Waited    uint64  `json:"waited"`     // calls that waited, and were admitted
	Refused   uint64  `json:"refused"`    // calls
	Returned  uint64  `json:"returned"`   // estimated in excess
	Owed      uint64  `json:"owed"`       // missing in estimates
	Forgiven  uint64  `json:"forgiven"`   // missing, and not taken because of MaxDebt
	// Fleet: the fleet has it together. Then Left is as this gateway last heard, and the
	// counters are of its own calls. Outage: the Tier does not respond.
	Fleet  bool `json:"fleet,omitempty"`
	Outage bool `json:"outage,omitempty"`
}

// stats returns nil without a Budget.
func (p *purse) stats() *BudgetStats {
	l := p.now.Load()
	if l == nil {
		return nil
	}
	if l.shared != nil {
		s, o := l.shared.Stats(), l.shared.Rate()
		return &BudgetStats{
			PerSecond: float64(o.Permits) / o.Per.Seconds(), Burst: o.Burst, Left: s.Left, Queued: s.Queued, Waited: s.Waited,
			Refused: s.Refused.Total(), Returned: s.Returned, Owed: s.Owed, Forgiven: s.Forgiven, Fleet: true, Outage: s.Outage,
		}
	}
	s := l.own.Stats()
	return &BudgetStats{
		PerSecond: s.PerSecond, Burst: s.Burst, Left: s.Tokens, Queued: s.Queued, Waited: s.Waited, Refused: s.Refused.Total(),
		Returned: s.Returned, Owed: s.Owed, Forgiven: s.Forgiven,
	}
}
