// Package wait adds a context to functions that wait without one.
package wait

import (
	"cmp"
	"context"
)

// For runs f, which waits for work that is ending. It returns when f has returned, or
// when ctx ends, with ctx's cause. f must return once that work has ended.
func For(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
