/*
Package weir keeps expensive calls alive under high load. It wraps a function
that is slow, costly or easily overrun, such as a database query or a call to
another service, in a [Guard], which calls that function as little as it can and
no faster than the source behind it can take.

	users, err := weir.New(queryUser, weir.Options{TTL: time.Minute})
	...
	user, err := users.Get(ctx, id)

queryUser is a func(context.Context, ID) (*User, error); the types of the Guard
follow from it. The zero [Options] only coalesce: callers that ask for one key
at the same time share one load, and nothing is kept. Everything else is an
option.

# Four instants

A value passes four instants, counted from the end of its load:

	until                          a Get returns
	TTL - RefreshAhead·TTL         the value
	TTL                            the value, and starts a refresh in the background
	TTL + StaleWhileRevalidate     the stale value, and starts a refresh in the background
	TTL + StaleIfError             what it loads, or the stale value if the load fails,
	                               is refused, or takes longer than SoftTimeout
	afterwards                     what it loads

In place of RefreshAhead, RefreshBeta lets each hit draw whether it starts a
refresh, by how long the load takes and how much is left of the TTL.

A TTL alone serves nothing stale. A refresh that fails changes none of the
instants, so no value is ever served beyond the last of them. It is tried again
after RefreshRetry, which doubles with each failure in a row.

[ErrNotFound] is an answer too, kept for NegativeTTL and refreshed ahead of that
as values are. Options.Classify says which errors of the source mean that. Other errors reach all who waited for the
load, and are kept only if Options.FailureMemo says so.

[Source] takes a LoadEntry in place of the simple function: it is told the
previous value and its version, and decides about TTL, windows, tags and weight
of the new one, or that the previous one still holds, or that nothing is kept.
LoadEntries does the same for several keys in one call.

# Who waits, and for how long

A load belongs to no caller. It runs on a goroutine of its own, with the values
of the first caller's context and neither its deadline nor its cancellation.
Every caller waits on its own context and leaves when that ends, whatever the
load does. When the last one has left, the load's context is canceled with
[ErrAbandoned] as the cause; Options.AbandonGrace lets it go on.

The load's context ends at LoadTimeout, 30 seconds by default. Callers then get
a [*TimeoutError] or a stale value, and the next caller loads again, even if the
function hangs on. With SoftTimeout set, callers that could have a stale value
get it when the load has run for that long, and the load goes on. A caller with
a deadline gets it shortly before that, with or without a SoftTimeout.

A panic of the function reaches every caller as a [*PanicError], runtime.Goexit
as [ErrGoexit]. The process lives.

# After a write

[Guard.Invalidate] removes a key, [Guard.InvalidateTags] all entries with a tag,
[Guard.InvalidateAll] everything. [Guard.Set] puts a value in place. [Guard.Expire] ends
freshness and leaves the stale windows. All of them beat loads that are running:
a load that began before brings nothing back into memory. Callers who waited for
it get its value, marked Superseded in their [Result]; callers who come
afterwards get a newer one.

They hold for this Guard, so for one process.

# A caller with other needs

[Guard.GetWith] takes a [Policy] for one call: the greatest age of the value, only
what is cached, nothing stale, another soft timeout or priority. [Guard.Refresh]
loads whatever memory holds.

# Many keys

[Guard.GetMany] answers from memory what it can, joins the loads that are
running, and loads the rest in one call of Source.LoadMany or LoadEntries. It
returns one
[Result] for each key, with its own error; [Guard.GetManySeq] yields them in the
order asked. With Options.Batch the single misses
of many callers are gathered into such calls too. For writes, package
[github.com/weir-go/weir/batch] does that.

# Limits

Options.Limiter admits loads: a number of them at once or a rate, see package
[github.com/weir-go/weir/limit]. Several Guards before one source share one
limiter. Hits and callers that join never meet it. A refused load is answered
with a stale value within StaleIfError, and otherwise with a *limit.Error, which
says why and when to try again.

Background refreshes are bounded by MaxRefreshes and take no permit that the
limiter keeps for others. Loads that hang are bounded by MaxStuck. Memory is
bounded by MaxEntries or MaxWeight, not by time: a value that is too old to be
served stays until its room is needed.

# What is shared

Keys are compared with ==, and callers with equal keys get the same value. So
whatever decides the answer, such as the tenant, the language or what the caller
may see, belongs into the key. Since a load has the context values of whoever
started it, Source.LoadContext is the place to take an identity out.

Callers share one value and must not change it. This holds for what hides behind
pointers, slices and maps as well. Where they have to, Source.Clone makes a copy
for each call, and of what Set is given.

# Seeing what happens

[Guard.GetResult] tells of one answer where it came from, how old it is and why
it is stale. [Guard.Stats] counts, hits included. Options.Observer is told of
loads, waits and what went wrong; [SlogObserver] writes that to a log.
[Options.Advice] names options that work against each other, for a program to
log when it starts.

# The end

[Guard.Close] cancels the loads and waits until their functions have returned,
as long as its context allows. Fresh values are still served afterwards; all
else is [ErrClosed]. A Guard without running loads has no goroutine and no
timer, so one that lives as long as the program need not be closed.

# Testing

Package [github.com/weir-go/weir/weirtest] has a source that does what a test
tells it to, and an Observer that keeps what it was told. A Guard works in a
bubble of testing/synctest, where a TTL of an hour takes no time.
*/
package weir
