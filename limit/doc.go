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

[Concurrency] bounds how many calls run at once: a fixed number of permits and a
bounded queue. Use it for a source that slows down under load.

[RateLimiter] bounds how many calls start per second: a token bucket. Use it for a
source with a quota, such as an API.

[Adaptive] also bounds how many calls run at once, and derives the number from the
latency. Use it for a source whose capacity is unknown, or changes.

[All] asks several in turn. All of them are a [Limiter], which the rest of weir
accepts, and return a [Permit]. Release takes an [Outcome], which says how the call
ended: an Adaptive learns from it, and [Unused] undoes the admission.

# Waiting

Each caller waits on its own context. A caller that could not be served in time does
not wait: if the expected wait is longer than its deadline allows, it is rejected at
once. A RateLimiter knows the wait exactly. The others derive it from how long permits
were held lately; before the first permit has come back, all callers may wait. When a
source hangs and no permit comes back, the expected wait grows with the hang.

The queue is bounded twice: by places (Queue), and by time (MaxWait). A queue with
more than MaxWait's worth of work is full, and a caller that has waited for MaxWait is
rejected.

A caller that leaves the queue takes nothing with it: a permit or a token that arrives
at the same instant goes to the next in the queue.

# Priorities

A caller's class is in its context, see [ContextWithPriority]. A Concurrency and an
Adaptive serve [High] before [Normal] before [Low], and first come, first served
within a class. Low may wait as long as the others do; its deadline and MaxWait make
sure that it gets a result soon. A RateLimiter has one queue for all classes.

Work without a waiting caller is [Background]: it never queues, and never takes the
last permits from calls that have waiting callers.

# Overload

A queue that empties now and then absorbs bursts, and there the order of arrival is
fair. A queue that has not been empty for OverloadAfter absorbs nothing: it makes all
callers wait equally long, until all of them are about to give up when their turn
comes. From then until it is empty, the newest of a class are served first. Most of
the callers that are served have then hardly waited, and the rest are rejected.

A full queue rejects the caller that would be served last. That is the newcomer,
unless a caller of a lower class waits, or under overload an older one: that caller is
rejected with [Displaced], at once.

# Rejections

A rejection is an [*Error]: a [Reason], and when to retry. errors.Is(err,
[ErrLimited]) distinguishes rejections from other errors. A rejection is cheap, so that
rejecting does not become the load: well under a microsecond and one small allocation;
the text is formatted only on demand.

# Places

Code that queues on behalf of others, which come and go, passes a [Place] to Acquire
with [ContextWithPlace]. It reports how long the wait is, and lets another caller
join: a caller with a deadline that cannot be met is rejected, a caller of a higher
class moves the place up.

# Dry run

An Adaptive with DryRun in its options learns and counts, and admits every call.
[AdaptiveStats] has the limit that it would have set, and how many callers would have
waited or been rejected. The source is not protected meanwhile, so under overload the
numbers show that there is one, not what the limit would do about it.

# Resources

A limiter has no goroutine and nothing to close. A RateLimiter has one timer while,
and only while, a caller waits for a token.

# Changes at run time

Update changes rate, burst, limit and queue of a limiter in use. Nothing is revoked:
permits stay valid, and callers that wait keep their turn. AcquireN takes several
units at once, for a call that costs as much as several.
*/
package limit
