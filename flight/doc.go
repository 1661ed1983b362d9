// Package flight coalesces calls: while a function runs for a key, everybody
// who asks for that key waits for that one run and gets its result.
//
// It does the work of golang.org/x/sync/singleflight and keeps promises which
// that package does not make:
//
//   - The function runs on its own goroutine and belongs to no caller. The
//     first caller may hang up without taking the others' result with it.
//   - Every caller waits on its own context, and leaves at its own deadline.
//   - When the last caller has left, the function's context is canceled, and
//     the next caller starts a new run at once, even if the old one is slow to
//     notice. See [Group.Grace] for other ways.
//   - A result is never handed to a caller who came after the run ended.
//   - A panic reaches every caller as a [*PanicError], runtime.Goexit as
//     [ErrGoexit]. The process lives, and nobody hangs.
//   - A function that asks for its own key gets [ErrRecursive], not a deadlock.
//
// # Coming from singleflight
//
//	var g singleflight.Group                var g flight.Group[string, *User]
//	v, err, shared := g.Do(key, fn)         u, err := g.Do(ctx, key, fn)
//
// where fn takes the context it is to use. [Group.DoResult] tells whether the
// call joined a running one, [Group.DoChan] returns a channel, and
// [Group.Forget] makes the next caller start anew.
//
// The result is shared: callers who want to change it must copy it first.
package flight
