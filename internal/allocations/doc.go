// Package allocations has the tests that count what a Guard's hit allocates.
//
// They are apart from the root's tests because they are run twice: those run under the
// race detector, which allocates too, and take minutes to compile. Here is one Guard
// with one pair of types.
package allocations
