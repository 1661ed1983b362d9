// Package slow prevents clients that send or read slowly from holding resources
// that other calls need (H24). It enforces a minimum rate while a call waits for
// its client, and bounds how many permits of a limiter may be blocked on clients
// at once.
package slow
