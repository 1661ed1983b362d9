// Package hotkeys finds the keys with the most calls, and those with the most
// load time, among many. Its memory is bounded by a number of counters, however
// many keys there are.
//
// It implements Space-Saving of Metwally, Agrawal and El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005: a key
// without a counter takes over the counter with the lowest count, and continues
// from that count. So with m counters, a count is never too low, and too high by
// at most 1/m of the total. Each counter knows its maximum error, and every key
// with more than 1/m of the total has a counter.
//
// Counts halve every minute, so they show what is hot now. The decay follows
// Cormode, Shkapenyuk, Srivastava and Xu, "Forward Decay: A Practical Time Decay
// Model for Streaming Systems", ICDE 2009: counters do not shrink. Instead, the
// amounts added grow with time, and occasionally all counters are divided by the
// same factor. That changes neither their order nor the bounds.
//
// There is no goroutine and no timer.
package hotkeys
