/*
Package weir keeps expensive calls alive under high load. It wraps a function
that is slow, expensive or easily overloaded, such as a database query or a call
to another service, in a [Guard]. The Guard calls the function as rarely as it
can, and no faster than the source behind it can take.

	users, err := weir.New(queryUser, weir.Options{TTL: time.Minute})
	...
	user, err := users.Get(ctx, id)

queryUser is a func(context.Context, ID) (*User, error); the types of the Guard
follow from it. The zero [Options] only coalesce: callers that request the same
key at the same time share one load, and nothing is kept. Everything else is an
option.

# Four instants

A value passes four instants, counted from the end of its load:

	until                          a Get returns
	TTL - RefreshAhead·TTL         the value
	TTL                            the value, and starts a refresh in the background
	TTL + StaleWhileRevalidate     the stale value, and starts a refresh in the background
	TTL + StaleIfError             the result of a load, or the stale value if the load
	                               fails, is rejected, or takes longer than SoftTimeout
	afterwards                     the result of a load

With RefreshBeta instead of RefreshAhead, each hit draws at random whether it
starts a refresh, depending on the load time and the rest of the TTL.

A TTL alone serves nothing stale. A failed refresh changes none of the instants,
so no value is ever served beyond the last of them. It is retried after
RefreshRetry, which doubles with each failure in a row.

[ErrNotFound] is a result too, kept for NegativeTTL and refreshed ahead of its
expiry like a value. Options.Classify decides which errors of the source count
as not found. Other errors reach all callers that wait for the load, and are
remembered only with Options.FailureMemo.

[Source] has a LoadEntry for loads that need more than the simple function: it
receives the previous value and its version, and sets TTL, windows, tags and
weight of the new one, keeps the previous one, or stores nothing. LoadEntries
does the same for several keys in one call.

# Waiting

A load belongs to no caller. It runs on its own goroutine, with the values of the
first caller's context but neither its deadline nor its cancellation. Every caller
waits on its own context and leaves when that ends, whatever the load does. When
the last one has left, the load's context is canceled with [ErrAbandoned] as the
cause; Options.AbandonGrace lets it go on.

The load's context ends at LoadTimeout, 30 seconds by default. Callers then get
a [*TimeoutError] or a stale value, and the next caller loads again, even if the
function has not returned. With SoftTimeout set, callers that may have a stale
value get it when the load has run for that long, and the load goes on. A caller
with a deadline gets it shortly before the deadline, with or without a SoftTimeout.

A panic of the function reaches every caller as a [*PanicError], runtime.Goexit
as [ErrGoexit]. The process survives.

# After a write

[Guard.Invalidate] removes a key, [Guard.InvalidateTags] all entries with a tag,
[Guard.InvalidateAll] everything. [Guard.Set] stores a value. [Guard.Expire] ends
freshness and keeps the stale windows. All of them take precedence over running
loads: a load that began before stores nothing. Callers that were waiting for it
get its value, marked Superseded in their [Result]; later callers get a newer one.

They affect this Guard, and so one process, unless Options.Fleet connects it to
others.

# A caller with other needs

[Guard.GetWith] takes a [Policy] for one call: the maximum age of the value, only
cached values, nothing stale, another soft timeout or priority. [Guard.Refresh]
loads a key whether or not it is in memory.

# Many keys

[Guard.GetMany] serves what it can from memory, joins running loads, and loads the
rest in one call to Source.LoadMany or LoadEntries. It returns one [Result] per
key, with its own error; [Guard.GetManySeq] yields them in the order of the keys.
With Options.Batch the single misses of many callers are gathered into such calls
too. For writes, use package [github.com/weir-go/weir/batch].

# Limits

Options.Limiter admits loads, by concurrency or by rate; see package
[github.com/weir-go/weir/limit]. Guards in front of the same source share one
limiter. Hits and callers that join a load never reach it. If a load is rejected,
its callers get a stale value within StaleIfError, and otherwise a *limit.Error
with the reason and the time to retry after.

Background refreshes are bounded by MaxRefreshes and take no permit that the
limiter reserves for others. Hung loads are bounded by MaxStuck. Memory is bounded
by MaxEntries or MaxWeight, not by time: a value that is too old to be served stays
until its space is needed.

# What is shared

Keys are compared with ==, and callers with equal keys get the same value. So the
key must contain everything that determines the value, such as the tenant, the
language or the caller's permissions. A load has the context values of the caller
that started it; Source.LoadContext can remove an identity from them.

Callers share one value and must not modify it, nor anything behind its pointers,
slices and maps. If they need to, Source.Clone makes a copy for each call, and of
the value passed to Set.

# Observability

[Guard.GetResult] reports where a value came from, how old it is and why it is
stale. [Guard.Stats] has counters, hits included. Options.Observer receives loads,
waits and failures; [SlogObserver] logs them. [Options.Advice] names options that
contradict each other, for a program to log at startup.

# Close

[Guard.Close] cancels the loads and waits until their functions have returned, or
until its context ends. Fresh values are still served afterwards; everything else
returns [ErrClosed]. A Guard without running loads has no goroutine and no timer,
so one that lives as long as the program need not be closed.

# Testing

Package [github.com/weir-go/weir/weirtest] has a scripted source for tests, and an
Observer that records its events. A Guard works in a bubble of testing/synctest,
where a TTL of an hour takes no time.
*/
package weir
