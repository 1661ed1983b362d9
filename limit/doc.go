/*
Package limit decides which calls may start, and when. It protects a source that is
slow, expensive or easily overloaded, and admits only what the source can take.

	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 20})
	...
	p, err := db.Acquire(ctx)
	if err != nil {
		return err // a rejection, or the cause of ctx
	}
	defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below
	err = query(ctx)
	p.Release(outcome(err))

# Limiters

[Concurrency] bounds how many calls run concurrently: a fixed number of permits and a
bounded queue. Use it for a source that slows down under load.

[RateLimiter] bounds how many calls start per second: a token bucket. Use it for a
source with a quota, such as an API.

[Adaptive] also bounds how many calls run concurrently, and derives the number from the
latency. Use it for a source whose capacity is unknown, or changes.

[KeyedRateLimiter] bounds how many calls of each key start per second, such as those of
each tenant. Use it in front of a Guard, where the key of a caller is known. It is no
[Limiter]: a load serves callers of several keys.

[All] combines several limiters: a call needs a permit from each of them. Each of
these types but KeyedRateLimiter is a [Limiter], which the rest of weir accepts, and returns a [Permit].
Release takes an [Outcome], which says how the call ended: an Adaptive learns from it,
and [Unused] undoes the admission.

# Waiting

Each caller waits on its own context. If the expected wait is longer than the caller's
deadline allows, the caller is rejected immediately. A RateLimiter knows the wait exactly.
The others estimate it from how long recent permits were held; until the first permit
is released, no caller is rejected for its deadline. When a source hangs and no permit
is released, the expected wait grows with the hang.

The queue is bounded twice: in callers (Queue) and in time (MaxWait). A queue with
more than MaxWait's worth of work is full, and a caller that has waited for MaxWait is
rejected.

A caller that leaves the queue takes nothing with it: a permit or a token that is
granted to it at the same instant goes to the next caller in the queue.

# Priorities

A caller's class is in its context, see [ContextWithPriority]. A Concurrency and an
Adaptive serve [High] before [Normal] before [Low], first come, first served within a
class. Low callers are bounded like all others, by their deadline and by MaxWait, and
are rejected if their turn does not come in that time. A RateLimiter has one queue for
all classes.

Work without a waiting caller is [Background]: it never queues, and never takes the
last permits from calls that have waiting callers.

# Tenants

Callers of several users of one source carry their [Tenant], see [ContextWithTenant]. While
callers of several tenants wait, a Concurrency and an Adaptive give each tenant permits for
the same time, or in proportion to its weight, and a full queue rejects a caller of the
tenant that has the most. Tenants come first: priorities order the callers of one tenant.
A RateLimiter has one queue for all tenants.

# Overload

Serving a queue in order of arrival is fair, however long the queue stands, as long as
its callers are served in time. When they no longer are, all of them wait equally long,
and are about to give up when their turn comes. So while the oldest caller of a class
would be served too late (after MaxWait, or with too little time left for a call of the
mean length before its deadline, or when others like it have left), the newest callers of
the class are served first. Most of those served have hardly waited, and the rest are
rejected.

A full queue rejects the caller that would be served last. Usually that is the
newcomer. If a caller of a lower class is waiting, or under overload an older caller
of the same class, that caller is rejected immediately with [Displaced].

# Rejections

A rejection is an [*Error]: a [Reason], and when to retry. errors.Is(err,
[ErrLimited]) distinguishes rejections from other errors. A rejection is cheap, so that
rejecting does not become the load: well under a microsecond and one small allocation;
the text is formatted only on demand.

# Places

Code that queues on behalf of callers that come and go passes a [Place] to Acquire
with [ContextWithPlace]. A Place reports the remaining wait, and lets another caller
join: a caller whose deadline cannot be met is rejected, and a caller of a higher
class moves the place up.

# Dry run

An Adaptive with DryRun in its options learns and counts, and admits every call.
[AdaptiveStats] has the limit that it would have set, and how many callers would have
waited or been rejected. The source is not protected in a dry run: under overload the
numbers reveal the overload, but not how much the limit would help.

# Resources

A limiter has no goroutine and nothing to close. A RateLimiter has one timer, and only
while a caller waits for a token.

# Changes at run time

Update changes the rate, burst, limit and queue of a limiter in use. Nothing is
revoked: permits stay valid, and waiting callers keep their turn. AcquireN takes
several units at once, for a call that costs as much as several.
*/
package limit
