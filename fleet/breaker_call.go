package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

// run passes one operation to the Tier. late, if not nil, receives a result that
// arrives after the caller has left.
func run[T any](ctx context.Context, b *Breaker, op string, call func(context.Context) (T, error), late func(T)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, wait.Cause(ctx)
	}
	e, err := b.enter()
	if err != nil {
		return none, err
	}
	v, err := within(ctx, b.o.Deadline, call, late, b.left)
	if err != nil && ctx.Err() != nil {
		return none, wait.Cause(ctx)
	}
	if errors.Is(err, errMissed) {
		err = &UnavailableError{Op: op, Err: err}
	}
	b.note(e, err)
	if err != nil {
		return none, err
	}
	return v, nil
}

// within runs call with a deadline on a separate goroutine, so that a call that
// ignores its context cannot block the caller. left is called when call has returned.
func within[T any](ctx context.Context, d time.Duration, call func(context.Context) (T, error), late func(T), left func()) (T, error) {
	type answer struct {
		v   T
		err error
	}
	inner, cancel := context.WithTimeoutCause(ctx, d, errMissed)
	defer cancel()
	done := make(chan answer, 1)
	// Set by whichever comes first: the result, or the departure of the caller.
	// Atomic, because a lock would protect nothing else.
	var decided atomic.Bool
	go func() { // ends with the call; MaxCalls bounds how many hang
		var a answer
		a.v, a.err = safely(inner, call)
		if decided.CompareAndSwap(false, true) {
			left()
			done <- a
			return
		}
		if a.err == nil && late != nil {
			late(a.v)
		}
		left()
	}()
	var a answer
	select {
	case a = <-done:
	case <-inner.Done():
		if decided.CompareAndSwap(false, true) {
			return a.v, wait.Cause(inner)
		}
		a = <-done // sent already, or about to be
	}
	if a.err != nil && inner.Err() != nil && !errors.Is(a.err, ErrUnavailable) {
		a.err = context.Cause(inner) // the Tier returned its context's error
	}
	return a.v, a.err
}

// safely turns a panic of call into an error: callers cannot recover it on our
// goroutine.
func safely[T any](ctx context.Context, call func(context.Context) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &UnavailableError{Op: "panic", Err: fmt.Errorf("the tier panicked: %v", p)}
		}
	}()
	return call(ctx)
}

// Acquire implements [Tier]. A lease granted after its caller has left is given back:
// otherwise no instance could load the key until the lease expires.
func (b *Breaker) Acquire(ctx context.Context, k Key, a Ask) (Answer, error) {
	return run(ctx, b, "acquire", func(ctx context.Context) (Answer, error) {
		return b.inner.Acquire(ctx, k, a)
	}, func(late Answer) {
		if late.Grant == GrantLease {
			ctx, cancel := context.WithTimeout(context.Background(), b.o.Deadline)
			defer cancel()
			_, _ = safely(ctx, func(ctx context.Context) (bool, error) { // if it fails, the lease expires
				return b.inner.Settle(ctx, k, late.Fence, Outcome{})
			})
		}
	})
}

// Extend implements [Tier].
func (b *Breaker) Extend(ctx context.Context, k Key, fence uint64, d time.Duration) (bool, error) {
	return run(ctx, b, "extend", func(ctx context.Context) (bool, error) {
		return b.inner.Extend(ctx, k, fence, d)
	}, nil)
}

// Settle implements [Tier].
func (b *Breaker) Settle(ctx context.Context, k Key, fence uint64, o Outcome) (bool, error) {
	return run(ctx, b, "settle", func(ctx context.Context) (bool, error) {
		return b.inner.Settle(ctx, k, fence, o)
	}, nil)
}

// Write implements [Tier].
func (b *Breaker) Write(ctx context.Context, k Key, w Write) (uint64, error) {
	return run(ctx, b, "write", func(ctx context.Context) (uint64, error) {
		return b.inner.Write(ctx, k, w)
	}, nil)
}

// Tags implements [Tier].
func (b *Breaker) Tags(ctx context.Context, namespace string, tags []string) (TagState, error) {
	return run(ctx, b, "tags", func(ctx context.Context) (TagState, error) {
		return b.inner.Tags(ctx, namespace, tags)
	}, nil)
}

// InvalidateTags implements [Tier].
func (b *Breaker) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return run(ctx, b, "invalidate tags", func(ctx context.Context) (uint64, error) {
		return b.inner.InvalidateTags(ctx, namespace, tags, keep)
	}, nil)
}

// ExpireTags implements [Tier].
func (b *Breaker) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return run(ctx, b, "expire tags", func(ctx context.Context) (uint64, error) {
		return b.inner.ExpireTags(ctx, namespace, tags, keep)
	}, nil)
}

// Abilities implements [Tier]: the inner Tier's abilities, with the deadline and the
// breaker applied.
func (b *Breaker) Abilities() Abilities {
	a := b.inner.Abilities()
	a.State = b.State
	if a.Meter != nil {
		a.Meter = b
	}
	if a.Ledger != nil {
		a.Ledger = b
	}
	if a.Roster != nil {
		a.Roster = b
	}
	return a
}

// Spend implements [Ledger].
func (b *Breaker) Spend(ctx context.Context, k Key, r Rate, n int) (Spent, error) {
	l := b.inner.Abilities().Ledger
	if l == nil {
		return Spent{}, errNoLedger
	}
	return run(ctx, b, "spend", func(ctx context.Context) (Spent, error) { return l.Spend(ctx, k, r, n) }, nil)
}

// Correct implements [Ledger].
func (b *Breaker) Correct(ctx context.Context, k Key, r Rate, debt int, c Correction) (Corrected, error) {
	l := b.inner.Abilities().Ledger
	if l == nil {
		return Corrected{}, errNoLedger
	}
	return run(ctx, b, "correct", func(ctx context.Context) (Corrected, error) { return l.Correct(ctx, k, r, debt, c) }, nil)
}

// Take implements [Meter].
func (b *Breaker) Take(ctx context.Context, k Key, r Rate, n int) (Taken, error) {
	m := b.inner.Abilities().Meter
	if m == nil {
		return Taken{}, errNotMeter
	}
	return run(ctx, b, "take", func(ctx context.Context) (Taken, error) {
		return m.Take(ctx, k, r, n)
	}, nil)
}

// Announce implements [Roster].
func (b *Breaker) Announce(ctx context.Context, i Instance, ttl time.Duration) error {
	i.Counts = maps.Clone(i.Counts) // a call that hangs outlives its caller
	_, err := ofRoster(ctx, b, "announce", func(ctx context.Context, r Roster) (struct{}, error) {
		return struct{}{}, r.Announce(ctx, i, ttl)
	})
	return err
}

// Withdraw implements [Roster].
func (b *Breaker) Withdraw(ctx context.Context, id string) error {
	_, err := ofRoster(ctx, b, "withdraw", func(ctx context.Context, r Roster) (struct{}, error) {
		return struct{}{}, r.Withdraw(ctx, id)
	})
	return err
}

// Instances implements [Roster].
func (b *Breaker) Instances(ctx context.Context) ([]Instance, error) {
	return ofRoster(ctx, b, "instances", func(ctx context.Context, r Roster) ([]Instance, error) {
		return r.Instances(ctx)
	})
}

func ofRoster[T any](ctx context.Context, b *Breaker, op string, call func(context.Context, Roster) (T, error)) (T, error) {
	r := b.inner.Abilities().Roster
	if r == nil {
		var none T
		return none, errNoRoster
	}
	return run(ctx, b, op, func(ctx context.Context) (T, error) { return call(ctx, r) }, nil)
}
