// Package fleet lets the instances of a service share what they know: one load
// of a key for all of them, its value or its failure, invalidations, and rate
// limits. It has the interface to what they share it in, a [Tier], and the
// protocol's parts; package weir's Guards and the gateway speak it.
//
// # The protocol
//
// An instance whose memory has no fresh value asks the Tier (Acquire), and gets one of four
// answers: here is a fresh value; load it, the lease is yours, its fence is 17; another
// holds the lease; or the last load failed a moment ago, with this error. An instance that
// loads extends the lease while it does, and ends it (Settle) with the value, the failure,
// or nothing. A push (Watch) wakes an instance that waits, and it asks again; if the holder
// dies, when its lease runs out.
//
// Each lease and each write of a key has a fence, a number that only grows. A
// result whose fence is not the key's last is refused, so a late one never
// overwrites a newer one, whatever pauses, delays and clocks do.
//
// A lease is for efficiency, not mutual exclusion: while the engine answers and
// no holder is paused beyond its lease, at most one load of a key runs in the
// fleet; otherwise at most one an instance. A load with side effects has its
// target check the fence, see [FenceFrom].
//
// # When the engine is away
//
// A Tier has a deadline of its own for every call, and a breaker that opens
// after a few missed ones ([WithBreaker]). Instances then go on alone: their own
// flights, their own limits, stale values within their bounds. When it is back
// all that memory holds counts as stale, since pushes may have been missed.
package fleet
