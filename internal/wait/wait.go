// Package wait adds a context to a wait that has none.
package wait

import "context"

// For runs f, which waits for work that is ending. It returns when f has
// returned, or with the cause of ctx when ctx ends. f must return once that work
// has ended.
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
		return Cause(ctx)
	}
}

// Cause returns why ctx is done, and never nil. The Done of a context that others have
// written, such as one of two merged contexts, may be closed before its Err is set: then
// context.Cause would say that nothing has happened.
func Cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.Canceled
}
