// Package promises checks which promises a loading cache, or a library that coalesces
// calls, keeps when things fail: a caller that leaves, a panic, a hung load, a
// deletion during a load, a storm of refreshes. The author of a library writes an
// adapter of about thirty lines, a [Library], and passes it to [Run]:
//
//	func TestPromises(t *testing.T) { promises.Run(t, library) }
//
// Each promise is a subtest. It runs in a separate process, because a library that
// breaks a promise may kill the process or never return: Run starts the test binary
// again for each promise. Almost all run in a testing/synctest bubble, where time is
// exact and waiting costs nothing.
//
// A promise that does not apply, such as one about stored values for a library that
// stores none, is skipped, and never counts as kept.
package promises
