/*
Package batch gathers single calls into bulk calls. A hundred goroutines that
each insert one row become one INSERT of a hundred rows, and every goroutine
gets the answer for its own row.

	rows, err := batch.New(insertAll, batch.Options{MaxSize: 100})
	...
	id, err := rows.Do(ctx, row)

For reads a Guard does the same with its own misses: see weir.Options.Batch.

# When a batch departs

The first item of a batch waits until the batch has MaxSize items, or until
Linger is over. Then the batch is due, and takes one of MaxParallel places; if
all are taken it waits in line, first come, first served, and goes on gathering
up to MaxSize. So with the default Linger of zero nobody waits while there is a
place, and under load the batches grow by themselves: what comes while the
places are taken goes together (the group commit of databases).

# Scope

Items of different scopes never share a batch: see Source.Scope. It is the place
for the tenant, the table, the transaction's identity. All scopes share the
places, and none can starve another, since the line knows no scope.

# Each caller for itself

A caller leaves when its own context ends, at once and with its cause. If its
batch has not departed, its item is taken out and was never run. If it has, the
item may be run or not; the error then matches [ErrUnknown], which matters for
writes. A bulk call is canceled when all its callers have left, with the cause
[ErrAbandoned].

A bulk call that fails in part returns [Errors], one for each item. One that
fails as a whole fails for all, unless Options.RetrySingly has each item tried
alone. A panic or runtime.Goexit in it is an error for all its callers.

# Idle

A Batcher at rest has no goroutine and no timer. [Batcher.Close] sends off what
is gathered and waits for it.
*/
package batch
