// Package allocations has the tests that count what a Guard's hit allocates.
//
// They are apart from internal/contract because they are run twice: those tests run under the
// race detector, which allocates too, and take long to compile. Here is one Guard with one
// pair of types.
package allocations
