// Package slow keeps clients that send or read slowly from taking what others
// need (H24): a minimum rate while a call waits for its client, and a bound on
// how many permits of a limiter may be blocked on clients at once.
package slow
