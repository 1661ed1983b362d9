/*
Package batch combines single calls into bulk calls. A hundred goroutines that
each insert one row become one INSERT of a hundred rows, and each goroutine
gets the result for its own row.

	rows, err := batch.New(insertAll, batch.Options{MaxSize: 100})
	...
	id, err := rows.Do(ctx, row)

For reads, a Guard does the same with its own misses: see weir.Options.Batch.

# When a batch starts

A batch is due when it has MaxSize items, or when its first item has waited for
Linger. It then takes one of MaxParallel slots. If all slots are busy, it queues
first come, first served, and still collects items up to MaxSize. With the
default Linger of zero, no item waits while a slot is free. Under load, batches
grow without tuning: items that arrive while the slots are busy form the next
batch (the group commit of databases).

# Scope

Items of different scopes never share a batch: see Source.Scope. Use it for the
tenant, the table, or the identity of a transaction. All scopes share the slots.
The queue ignores scopes, so no scope can starve another.

# Each caller on its own

A caller returns as soon as its own context ends, with the cause. If its batch
has not started, its item is removed and never runs. If the batch has started, the
item may or may not run; the error then matches [ErrUnknown], which matters for
writes. When all callers of a bulk call have left, the call is canceled with the
cause [ErrAbandoned].

A bulk call that fails for some items returns [Errors], one per item. If it fails
as a whole, it fails for all callers, unless Options.RetrySingly retries each item
alone. A panic or runtime.Goexit in it is an error for all its callers.

# Idle

An idle Batcher has no goroutine and no timer. [Batcher.Close] sends the items
that it has collected and waits for them.
*/
package batch
