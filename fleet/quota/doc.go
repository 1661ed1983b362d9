// Package quota limits what the instances of a service may do together: a [Limiter] bounds
// calls by a rate, a [Budget] bounds units of cost, and a [KeyedLimiter] and a [KeyedBudget] do
// so for each of many keys, such as clients.
//
// The engine of the fleet counts: the Meter or the Ledger in the Abilities of a [fleet.Tier].
// Here is what an instance does with it: batches of permits with a lease, callers that wait,
// corrections when a call's cost is known, and what happens during an outage ([FailureMode]).
package quota
