/*
Package outbox enqueues jobs of package jobs inside the caller's own PostgreSQL
transaction. If the transaction commits, the job runs; if it is rolled back, it does not.

# A first program

Migrate creates the table. A [Queue] inserts rows. A [Relay], in the same program or in
another, submits them to the jobs.Queue of the same name, whose workers run them.

	err := outbox.Migrate(ctx, db, outbox.MigrateOptions{})

	emails, err := outbox.NewQueue[Email]("emails", outbox.QueueOptions{})
	id, err := emails.Enqueue(ctx, outbox.Pgx(tx), email, outbox.EnqueueOptions{})

	table, err := outbox.NewTable(db, outbox.TableOptions{})
	relay, err := outbox.NewRelay(ctx, table, store, outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"emails": emailOptions},
		Listen: outboxpgx.Listen(config),
	})
	err = relay.Run(ctx)

[Pgx] accepts a pgx.Tx, [SQL] a *sql.Tx with any driver. Migrate, [Table] and Relay use
database/sql; with pgx, stdlib.OpenDBFromPool returns the *sql.DB of a pool. This package
imports no driver. Package outboxpgx listens for notifications with pgx.

# One row, one job

A row's ID is the key of its job, submitted with SubmitOptions.Once. A row whose job the
queue knows in any state (queued, running, done, failed, dead or canceled) is deleted, and
nothing is submitted again. So a crash of the relay, of the server or of PostgreSQL at any
point leaves a row that is tried again, and one job.

A queue knows a job until some time after its end, which jobs.Queue.Remembers returns: the
shorter of ResultTTL and DeadTTL, 24 hours by default, and three leases and a second with a
ResultTTL of jobs.None. This leaves one window. All of the following must happen:

  - a relay claims a row, submits it, and is killed before it deletes the row, or
    PostgreSQL is restored to a point before the deletion;
  - the job ends;
  - no relay looks at the row for longer than the queue remembers the job, counted from the
    first claim, less RelayOptions.Lease.

The table has the time of the first claim, so a relay notices. It looks for the job once
more, and if the queue does not know it, parks the row as [ReasonDoubtful]: the job ran at
most once, and you decide. With RelayOptions.ResubmitDoubtful the relay submits the row
again: at least once. [Relay.Advice] names queues that remember their jobs for less than
an hour.

The time of the first claim can be lost: if PostgreSQL is restored to a point further back
than the queue remembers its jobs, or fails over to a replica that is so far behind. Call
[Table.Restored] before relays run again. A job that was dropped from the queue
(jobs.Store.Drop) is known for three leases and a second only. A relay that is paused
between its last look at the clock and the arrival of its request, for longer than the
lease and the queue's memory, is not noticed.

A rolled-back row is never visible to a relay. Rows that were committed and then lost with
PostgreSQL's history, by a restore, may have become jobs.

# Full queues and parked rows

When a queue is full, a relay pauses it for the refusal's RetryAfter, at most Poll. Each
queue has a separate goroutine, so other queues continue. A row that can never be submitted is moved
to a second table with its [Reason]. [Table.Parked] lists these rows, [Table.Retry] moves
them back, and [Table.Delete] deletes them.

# Wake-ups

Enqueue sends a NOTIFY with the transaction, at most one every QueueOptions.NotifyEvery for
each Queue. A relay with a Listener looks at the queue when the transaction has committed.
Then it polls with waits that double from MinPoll to Poll. Without a Listener, which
PgBouncer does not support, it only polls; [Relay.Wake] makes it look at once.

# Bounds and numbers

A batch has at most RelayOptions.Batch rows and MaxBatchBytes bytes, an input at most
MaxInput. A relay has at most MaxQueues queues. The table has no bound: PostgreSQL accepts
rows while the server of the jobs is away. [Table.Backlog] counts the rows of each queue and
returns the age of the oldest, for an alert; [Relay.Stats] and the [Observer] report what a
relay does.
*/
package outbox
