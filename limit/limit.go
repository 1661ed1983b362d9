package limit

import (
	"context"
	"sync/atomic"
)

// A Limiter decides who may start, and when.
//
// Acquire returns a Permit once the caller may start, possibly after a wait.
// It returns a [*Error] when it refuses, and context.Cause(ctx) when ctx is
// done before the caller was admitted, already at the call or while it waited.
// With an error the Permit is the zero one.
//
// The limiters of this package are safe for concurrent use, and so must be every
// other Limiter. One that is written elsewhere makes its permits with
// [NewPermit].
type Limiter interface {
	Acquire(ctx context.Context) (Permit, error)
}

// A Permit is the right to run one call. It is a small value: copying it
// allocates nothing, and the copies are the same permit.
//
// The caller that acquired a Permit calls Release once its call has really returned.
// Of several calls of Release, on one copy or on many, at once or one after
// another, the first counts and the rest do nothing; so a deferred
// Release(Ignored) makes a panic safe:
//
//	p, err := l.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer p.Release(limit.Ignored) // for a panic, or a return that forgot
//	err = call(ctx)
//	p.Release(outcome(err))
//
// The zero Permit is valid and belongs to no limiter: Release does nothing.
type Permit struct {
	from releaser
	id   uint64 // what it means is from's business
}

// A releaser takes back the permits it gave out. It tells a permit that was
// released before by its id.
type releaser interface {
	release(id uint64, o Outcome)
}

// NewPermit returns a Permit for a Limiter outside this package. The first
// Release calls release with its outcome, later ones do not. A nil release
// means that there is nothing to do.
func NewPermit(release func(Outcome)) Permit {
	if release == nil {
		return Permit{}
	}
	return Permit{from: &onceReleaser{fn: release}}
}

// Release hands the permit back and says how the call went. It does not
// block. It is safe for concurrent use.
func (p Permit) Release(o Outcome) {
	if p.from != nil {
		p.from.release(p.id, o)
	}
}

type onceReleaser struct {
	done atomic.Bool // one flag, set once: a mutex would guard nothing more
	fn   func(Outcome)
}

func (r *onceReleaser) release(_ uint64, o Outcome) {
	if r.done.CompareAndSwap(false, true) {
		r.fn(o)
	}
}

// An Outcome says how the call under a Permit went. Fixed limits look at
// Unused alone; the rest is for an [Adaptive], which learns.
type Outcome uint8

const (
	// Success: the call ran to its end. An error that is an answer, such as
	// "not found", is a success too.
	Success Outcome = iota
	// Dropped: the call timed out, or the source said that it is overloaded.
	Dropped
	// Ignored: the call says nothing about the source, for example because
	// its caller gave up. It used what it was admitted to use.
	Ignored
	// Unused: the call never started. The permit counts as never given: a
	// RateLimiter takes its token back, and the time it was held is not
	// measured.
	Unused
)

// String returns the name of the constant in lower case, "outcome(N)" for a
// value that has none.
func (o Outcome) String() string {
	return name(outcomeNames[:], "outcome", int(o))
}

var outcomeNames = [...]string{
	Success: "success",
	Dropped: "dropped",
	Ignored: "ignored",
	Unused:  "unused",
}
