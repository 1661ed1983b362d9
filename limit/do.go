package limit

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn under a permit of l and returns the results of fn, or the error of
// Acquire. The permit is released when fn has returned, panicked or exited, with
// an [Outcome] that depends on fn's error:
//
//   - nil, or any error not listed below: Success, because the source responded;
//   - context.DeadlineExceeded, or an error that matches [ErrLimited]: Dropped;
//   - any error after ctx was canceled, or a panic: Ignored.
//
// To choose the outcome yourself, use Acquire and [Permit.Release].
func Do[T any](ctx context.Context, l Limiter, fn func(ctx context.Context) (T, error)) (T, error) {
	p, err := l.Acquire(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	defer p.Release(Ignored) // for a panic
	v, err := fn(ctx)
	if ctx.Err() != nil {
		p.Abandon()
	}
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

// Must returns v, and panics if err is not nil. Use it for limiters that are created
// when a program starts.
//
//	var queries = limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 20}))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// mustBePositive panics if n is below 1.
func mustBePositive(n int) {
	if n < 1 {
		panic(fmt.Sprintf("limit: AcquireN of %d units", n))
	}
}
