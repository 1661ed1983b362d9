// Package fleet lets the instances of a service share their work: one load of a
// key for all of them, its value or its failure, and invalidations. It defines the
// interface to the engine that they share, a [Tier], and the parts of the protocol. The
// Guards of package weir and the gateway use it. Package quota has the limits that the
// engine counts: rates, and budgets of cost.
//
// # The protocol
//
// An instance whose memory has no fresh value calls Acquire of the Tier and gets one of
// four grants: a fresh value; a lease to load it, with a fence such as 17; the notice that
// another instance holds the lease; or the error of a load that has just failed. The
// holder of a lease renews it during the load and ends it (Settle) with the value, the
// failure, or nothing. A push (Watch) then wakes the waiting instances, which call Acquire
// again. If the holder dies, they do so when its lease expires.
//
// Each lease and each write of a key has a fence, a number that only grows. The Tier
// rejects a result whose fence is not the key's last one, so a late result never
// overwrites a newer one, whatever pauses, delays and clocks do.
//
// A lease is for efficiency, not mutual exclusion. While the engine responds and no
// holder is paused for longer than its lease, at most one load of a key runs in the
// fleet; otherwise at most one per instance. If a load has side effects, its target
// should check the fence: see [FenceFrom].
//
// # When the engine is unreachable
//
// Every call of a Tier has a deadline, and a breaker opens after several timeouts
// ([WithBreaker]). Instances then work alone: with their own flights and limits, and with
// stale values within their bounds. When the engine is back, everything in memory counts
// as stale, because pushes may have been missed.
package fleet
