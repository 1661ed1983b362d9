package limit

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn under a permit of l and returns what it returns, or the error of
// Acquire. The permit is released when fn has returned, panicked or exited, with
// an [Outcome] after its error:
//
//   - nil, and any error that is not named here: Success, as the source answered;
//   - context.DeadlineExceeded, or an error that matches [ErrLimited]: Dropped;
//   - any error once ctx was canceled, and a panic: Ignored.
//
// A caller who knows better uses Acquire and [Permit.Release].
func Do[T any](ctx context.Context, l Limiter, fn func(ctx context.Context) (T, error)) (T, error) {
	p, err := l.Acquire(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	defer p.Release(Ignored) // for a panic
	v, err := fn(ctx)
	p.Release(outcome(ctx, err))
	return v, err
}

func outcome(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(ctx.Err(), context.Canceled):
		return Ignored
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrLimited):
		return Dropped
	}
	return Success
}

// Must returns v, and panics if err is not nil: for what is made when a program
// starts.
//
//	var queries = limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 20}))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// mustBePositive panics if n is no number of units.
func mustBePositive(n int) {
	if n < 1 {
		panic(fmt.Sprintf("limit: AcquireN of %d units", n))
	}
}
