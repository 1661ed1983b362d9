package limit

import "context"

// MaxUnits is the most units that a limiter can have. Code that computes a cost from
// data of others caps it here: such a call is rejected with [TooMany].
const MaxUnits = 1 << 30

// A UnitLimiter is a Limiter that can count one call as several units: as many as the
// call is expected to cost. The Permit of AcquireN can be settled. All limiters of
// this package are UnitLimiters, and so is a quota.Budget.
type UnitLimiter interface {
	Limiter

	// AcquireN is Acquire for a call that counts as n units, at least 1. It rejects
	// with TooMany if n units can never be available.
	AcquireN(ctx context.Context, n int) (Permit, error)
}

// AcquireN acquires n units from l, which must be at least 1. If l is no
// [UnitLimiter], it counts the call as one, and its Permit cannot be settled.
func AcquireN(ctx context.Context, l Limiter, n int) (Permit, error) {
	mustBePositive(n)
	if u, ok := l.(UnitLimiter); ok {
		return u.AcquireN(ctx, n)
	}
	return l.Acquire(ctx)
}

// PerCall returns a Limiter that counts calls, whatever they cost. It is for a
// Concurrency or an Adaptive next to a limiter that counts units:
//
//	limit.All(tokensPerMinute, limit.PerCall(connections))
//
// It panics if l is nil. [Parts] returns l itself.
func PerCall(l Limiter) Limiter {
	if l == nil {
		panic("limit: PerCall of a nil Limiter")
	}
	return perCall{l}
}

// perCall hides the AcquireN of a Limiter.
type perCall struct{ Limiter }

// Settle corrects the number of units that the permit stands for, from the estimate
// given to AcquireN to what the call really costs. Units that the estimate had in
// excess are given back at once; units that it lacked are owed: they are taken without
// a wait, and later callers wait for them. How many can be owed is bounded, see
// [RateLimiter.AcquireN] and [Concurrency.AcquireN].
//
// Call it before Release, as often as the cost becomes better known, each time with
// the whole cost; 0 or less means that the call costs nothing. After Release it does
// nothing, nor does it for a permit that came from Acquire. It does not block. It is
// safe for concurrent use.
func (p Permit) Settle(units int) {
	if p.from != nil {
		p.from.settle(p.id, max(0, min(units, MaxUnits)))
	}
}

// NewUnitsPermit is [NewPermit] for a UnitLimiter outside this package. Settle calls
// settle with the new number of units, from 0 to MaxUnits, unless Release was called
// before.
func NewUnitsPermit(settle func(units int), release func(Outcome)) Permit {
	if release == nil {
		release = func(Outcome) {}
	}
	return Permit{from: &onceReleaser{fn: release, counts: settle}}
}
