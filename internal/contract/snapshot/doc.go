// Package snapshot has tests of the contract of a Guard: what the next process finds of its
// entries (E10).
package snapshot
