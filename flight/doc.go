// Package flight coalesces calls: while a function runs for a key, other callers
// of that key wait for the same run and get its result.
//
// It replaces golang.org/x/sync/singleflight, and gives guarantees that package
// does not give:
//
//   - The function runs on its own goroutine and belongs to no caller. The
//     first caller can leave without affecting the others.
//   - Every caller waits on its own context, and leaves at its own deadline.
//   - When the last caller has left, the function's context is canceled, and
//     the next caller starts a new run immediately, even if the old one is slow to
//     return. [Group.Grace] changes that.
//   - A caller that arrives after a run has ended never gets its result.
//   - A panic reaches every caller as a [*PanicError], and runtime.Goexit as
//     [ErrGoexit]. The process survives, and no caller hangs.
//   - A function that calls Do for its own key gets [ErrRecursive], not a deadlock.
//
// # Coming from singleflight
//
//	var g singleflight.Group                var g flight.Group[string, *User]
//	v, err, shared := g.Do(key, fn)         u, err := g.Do(ctx, key, fn)
//
// where fn receives the context to use. [Group.DoResult] reports whether the
// call joined a running one, [Group.DoChan] returns a channel, and
// [Group.Forget] lets the next caller start a new run.
//
// All callers share the result: copy it before you change it.
package flight
