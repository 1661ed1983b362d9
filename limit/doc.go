/*
Package limit decides who may start, and when. It stands in front of
something that is slow, costly or easily overrun, and lets through what that
can take.

	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 20})
	...
	p, err := db.Acquire(ctx)
	if err != nil {
		return err // a refusal, or the cause of ctx
	}
	defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below
	err = query(ctx)
	p.Release(outcome(err))

# Limiters

[Concurrency] bounds how many calls run at once: a fixed number of permits and
a bounded queue. It is the limit for a source that slows down under load.

[RateLimiter] bounds how many calls start in a second: a token bucket. It is
the limit for a source that counts, such as an API with a quota.

[Adaptive] bounds how many calls run at once too, and finds the number itself,
from the latency. It is the limit for a source whose capacity is not known, or
changes.

[All] asks several in turn. They all are a [Limiter], which is what the rest of
weir accepts, and hand out a [Permit]. Release takes an [Outcome], which says
how the call went: an Adaptive learns from it, and [Unused] undoes the
admission.

# Waiting

Callers wait each on its own context. A caller that could not be served in time
is not made to wait for it: when the expected wait outlasts its deadline, it is
refused at once. A RateLimiter knows the wait exactly. The others work it out
from how long permits were held lately; before the first has come back they let
everybody wait. When a source hangs, and no permit comes back at all, the
expected wait grows with the hang.

The queue is bounded twice: by places (Queue), and by time (MaxWait). One that
holds more than MaxWait's worth of work is full, and who has waited as long is
refused.

A caller that leaves the queue leaves nothing behind: a permit or a token that
arrives at the same instant goes to the next in the queue.

# Priorities

A caller's class travels in its context, see [ContextWithPriority]. A
Concurrency and an Adaptive serve [High] before [Normal] before [Low], and first
come, first served within a class. Low waits for as long as others do; its
deadline and MaxWait make sure that it learns soon. A RateLimiter has one queue
for all of them.

Work that nobody waits for is [Background]: it never queues, and never takes the
last permits from calls that have waiting callers.

# Overload

A queue that empties now and then takes up a burst, and there the order of
arrival is fair. One that has been standing for OverloadAfter takes up nothing:
it only makes everybody wait as long, until all are about to give up when their
turn comes. From then until it is empty, the newest of a class are served first.
Most of the callers that are served have then hardly waited, and the rest are rejected.

A full queue refuses the one who would be served last. That is the newcomer,
unless somebody of a lower class waits, or under overload somebody older: they
are refused with [Displaced], at once.

# Refusals

A refusal is an [*Error]: a [Reason], and when to try again. errors.Is(err,
[ErrLimited]) tells refusals from everything else. A refusal is cheap, so that
refusing does not become the load: well under a microsecond and one small
allocation, nothing is formatted before somebody asks for the text.

# Places

Code that queues on behalf of others, which come and go, passes a [Place] to Acquire
with [ContextWithPlace]. It tells how long there is to wait, and lets another
caller join: one with a deadline that cannot be met is refused, one of a higher
class takes the place up with it.

# Dry run

An Adaptive with DryRun in its options learns and counts, and lets everybody in.
[AdaptiveStats] has the limit that it would have set, and how many callers would
have waited or been refused. The source is not protected meanwhile, so under
overload the numbers tell that there is one, not what the limit would make of
it.

# Idle

A limiter has no goroutine and nothing to close. A RateLimiter has one timer
while, and only while, somebody waits for a token.

# Changes while it runs

Update changes rate, burst, limit and queue of a limiter that is in use. Nothing
is revoked: permits stay out, and callers that wait keep their turn. AcquireN
takes several units at once, for a call that costs as much as several.
*/
package limit
