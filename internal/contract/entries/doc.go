// Package entries has tests of the contract of a Guard: what it stores, serves, refreshes and
// invalidates (E).
package entries
