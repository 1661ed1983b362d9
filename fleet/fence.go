package fleet

import "context"

type fenceKey struct{}

// WithFence returns a context that carries a lease's fence. Guards give it to
// their loads; it is exported for tests of what reads it.
func WithFence(ctx context.Context, fence uint64) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// FenceFrom returns the fence of the lease under which a load runs, from its
// context. A load with side effects hands it to its target, which refuses what
// is lower than the highest it has seen: a lease alone is no mutual exclusion
// (Kleppmann, "How to do distributed locking", 2016). It reports false without
// a fleet, in local mode, and for loads of several keys.
func FenceFrom(ctx context.Context) (uint64, bool) {
	fence, ok := ctx.Value(fenceKey{}).(uint64)
	return fence, ok
}
