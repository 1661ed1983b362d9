package gateway

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

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
	// Queue and QueueWait: see Upstream.
	Queue     int
	QueueWait time.Duration
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

// A purse is a Budget that can change, or come and go, while it is in use.
type purse struct {
	now atomic.Pointer[limit.RateLimiter] // read by every call and replaced by Update: a mutex would be one more for all to share
}

var _ limit.UnitLimiter = (*purse)(nil)

// Acquire implements limit.Limiter.
func (p *purse) Acquire(ctx context.Context) (limit.Permit, error) { return p.AcquireN(ctx, 1) }

// AcquireN implements limit.UnitLimiter. Without a Budget it admits every call.
func (p *purse) AcquireN(ctx context.Context, n int) (limit.Permit, error) {
	if l := p.now.Load(); l != nil {
		return l.AcquireN(ctx, n)
	}
	return limit.Permit{}, nil
}

// set makes p limit as b does, which may be nil and is valid. Units that were spent stay
// spent, unless there was no Budget before.
func (p *purse) set(name string, b *Budget) {
	was := p.now.Load()
	switch {
	case b == nil:
		p.now.Store(nil)
	case was == nil:
		p.now.Store(limit.Must(limit.NewRateLimiter(b.options(name))))
	default:
		_ = was.Update(b.options(name)) // it is valid, and has the same name
	}
}

// BudgetStats are the state of a Budget and its counters, in units where nothing else is
// said.
type BudgetStats struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
	Left      float64 `json:"left"`     // negative if some are owed
	Queued    int     `json:"queued"`   // calls that wait
	Waited    uint64  `json:"waited"`   // calls that waited, and were admitted
	Refused   uint64  `json:"refused"`  // calls
	Returned  uint64  `json:"returned"` // estimated in excess
	Owed      uint64  `json:"owed"`     // missing in estimates
	Forgiven  uint64  `json:"forgiven"` // missing, and not taken because of MaxDebt
}

// stats returns nil without a Budget.
func (p *purse) stats() *BudgetStats {
	l := p.now.Load()
	if l == nil {
		return nil
	}
	s := l.Stats()
	return &BudgetStats{
		PerSecond: s.PerSecond, Burst: s.Burst, Left: s.Tokens, Queued: s.Queued, Waited: s.Waited, Refused: s.Refused.Total(),
		Returned: s.Returned, Owed: s.Owed, Forgiven: s.Forgiven,
	}
}
