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

[All] asks several in turn. They all are a [Limiter], which is what the rest of
weir accepts, and hand out a [Permit]. Release takes an [Outcome], which says
how the call went; [Unused] undoes the admission.

# Waiting

Callers wait first come, first served, and each on its own context. A caller
that could not be served in time is not made to wait for it: when the expected
wait outlasts its deadline, or MaxWait, it is refused at once. A RateLimiter
knows the wait exactly. A Concurrency works it out from how long permits were
held lately; before the first has come back it lets everybody wait. When a source
hangs, and no permit comes back at all, the expected wait grows with the hang.

Whoever leaves the queue leaves nothing behind: a permit or a token that
arrives at the same instant goes to the next in the queue.

# Refusals

A refusal is an [*Error]: a [Reason], and when to try again. errors.Is(err,
[ErrLimited]) tells refusals from everything else. A refusal is cheap, so that
refusing does not become the load: well under a microsecond and one small
allocation, nothing is formatted before somebody asks for the text.

# Priorities

A caller's class travels in its context, see [ContextWithPriority]. Work that
nobody waits for is [Background]: it never queues, and never takes the last
permits from those who have somebody waiting.

# Idle

A limiter has no goroutine and nothing to close. A RateLimiter has one timer
while, and only while, somebody waits for a token.
*/
package limit
