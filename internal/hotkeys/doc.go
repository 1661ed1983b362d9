// Package hotkeys finds out which keys of many have the most calls, and for which
// the source works longest, in memory that is bounded by a number of counters
// whatever the number of keys.
//
// It is Space-Saving of Metwally, Agrawal and El Abbadi, "Efficient Computation
// of Frequent and Top-k Elements in Data Streams", ICDT 2005: a key that has no
// counter takes that of the key with the least, and goes on from its count. So
// with m counters a count is never too low, at most 1/m of all too high, each
// counter knows by how much at most, and whatever has more than 1/m of all has a
// counter.
//
// Counts fade, by half in a minute, so that they tell what is hot now. The decay
// is that of Cormode, Shkapenyuk, Srivastava and Xu, "Forward Decay: A Practical
// Time Decay Model for Streaming Systems", ICDE 2009: rather than that all
// counters shrink, what is added grows with time, and now and then all are divided
// by the same. That changes neither their order nor the bounds.
//
// There is no goroutine and no timer.
package hotkeys
