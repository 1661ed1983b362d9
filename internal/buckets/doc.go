// Package buckets has the token buckets of a bounded number of keys that outsiders may make
// up: of the clients of weirhttp.ClientLimiter and weirhttp.ClientBudget, and of
// limit.KeyedRateLimiter.
//
// A full bucket is forgotten, because a new one would be no different. The others are kept
// as long as there is a place, or always: the caller of [Table.Claim] decides. A [Meter] has
// exact arithmetic in whole numbers and reads no clock.
package buckets
