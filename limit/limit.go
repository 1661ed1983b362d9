package limit

import (
	"context"
	"sync/atomic"
)

// A Limiter decides which calls may start, and when.
//
// Acquire returns a Permit once the caller may start, possibly after a wait.
// It returns an [*Error] when it rejects the caller, and context.Cause(ctx) when
// ctx is done before the caller is admitted, whether before the call or during the
// wait. With an error, the Permit is the zero Permit.
//
// The limiters of this package are safe for concurrent use, and every other
// Limiter must be as well. A Limiter outside this package creates its permits
// with [NewPermit].
type Limiter interface {
	Acquire(ctx context.Context) (Permit, error)
}

// A Permit is the right to run one call. It is a small value: copying it
// allocates nothing, and the copies are the same permit.
//
// The caller that acquired a Permit calls Release once the protected call has
// actually returned. Only the first Release of a permit counts, on whichever copy
// and however many run at once; the rest do nothing. So a deferred Release(Ignored)
// covers panics:
//
//	p, err := l.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer p.Release(limit.Ignored) // for a panic or an early return
//	err = call(ctx)
//	p.Release(outcome(err))
//
// The zero Permit is valid and belongs to no limiter: Release and Settle do nothing.
type Permit struct {
	from releaser
	id   uint64 // its meaning is private to from
}

// A releaser takes back the permits it issued. By the id it recognizes a permit
// that has already been released.
type releaser interface {
	release(id uint64, o Outcome)
	settle(id uint64, units int)
	abandon(id uint64)
}

// NewPermit returns a Permit for a Limiter outside this package. The first call of
// Release calls release with its outcome; later ones do nothing. With a nil release,
// Release does nothing.
func NewPermit(release func(Outcome)) Permit {
	if release == nil {
		return Permit{}
	}
	return Permit{from: &onceReleaser{fn: release}}
}

// Release returns the permit to its limiter and reports how the call ended. It does
// not block. It is safe for concurrent use.
func (p Permit) Release(o Outcome) {
	if p.from != nil {
		p.from.release(p.id, o)
	}
}

// Abandon reports that all callers of the call have left, or have given it up, while it
// still runs. The permit stays taken until Release. A [Concurrency] with a MinLimit whose calls mostly end
// like that lowers its limit until they end in time again. Call it as soon as the callers
// have left, or else before Release; without it, the call does not count as late, unless it
// ends as Dropped. It does not block, and does nothing after Release. It is safe for
// concurrent use.
func (p Permit) Abandon() {
	if p.from != nil {
		p.from.abandon(p.id)
	}
}

type onceReleaser struct {
	done   atomic.Bool // not a mutex: there is nothing to guard but this flag, which is set once
	fn     func(Outcome)
	counts func(units int) // nil: its units cannot be settled
}

func (r *onceReleaser) release(_ uint64, o Outcome) {
	if r.done.CompareAndSwap(false, true) {
		r.fn(o)
	}
}

func (r *onceReleaser) abandon(uint64) {}

func (r *onceReleaser) settle(_ uint64, units int) {
	if r.counts != nil && !r.done.Load() {
		r.counts(units)
	}
}

// An Outcome says how the call under a Permit ended. Fixed limits only
// distinguish Unused; an [Adaptive] learns from the others.
type Outcome uint8

const (
	// Success: the call ran to completion. An error that is a valid reply of the
	// source, such as "not found", is also a success.
	Success Outcome = iota
	// Dropped: the call timed out, or the source reported that it is overloaded.
	Dropped
	// Ignored: the call says nothing about the source, for example because
	// its caller gave up. Its permit still counts as used.
	Ignored
	// Unused: the call never started. The permit counts as never issued: a
	// RateLimiter gets its token back, and the time for which the permit was held
	// is not measured.
	Unused
)

// String returns the name of the constant in lower case, or "outcome(N)" for a
// value without a name.
func (o Outcome) String() string {
	return name(outcomeNames[:], "outcome", int(o))
}

var outcomeNames = [...]string{
	Success: "success",
	Dropped: "dropped",
	Ignored: "ignored",
	Unused:  "unused",
}
