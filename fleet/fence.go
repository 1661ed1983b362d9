package fleet

import "context"

type fenceKey struct{}

// WithFence returns a context that carries a lease's fence. Guards call it for their
// loads; it is exported for tests of code that reads the fence.
func WithFence(ctx context.Context, fence uint64) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// FenceFrom returns the fence of the lease under which a load runs, from its context.
// A load with side effects passes it to its target, which rejects every fence lower
// than the highest it has seen: a lease alone does not ensure mutual exclusion
// (Kleppmann, "How to do distributed locking", 2016). FenceFrom reports false without
// a fleet, in local mode, and for loads of several keys.
func FenceFrom(ctx context.Context) (uint64, bool) {
	fence, ok := ctx.Value(fenceKey{}).(uint64)
	return fence, ok
}
