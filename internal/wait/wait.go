// Package wait gives a context to what waits without one.
package wait

import "context"

// For runs f, which waits for work that is ending, and returns when f has or when
// ctx ends, then with its cause. f must return once that work has ended.
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
		return context.Cause(ctx)
	}
}
