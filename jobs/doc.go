/*
Package jobs runs calls later. A call that is too expensive to wait for is stored
durably before Submit returns, and run by workers, with retries and a result that callers can wait
for. Jobs are stored on NATS JetStream: on an embedded server, or on a cluster,
which differs only in the address.

# A first program

Package embedded runs the server, a [Store] keeps jobs on it, and a [Queue] has the
types of one kind of job: its input and its result.

	server, err := embedded.Start(embedded.Options{Dir: "/var/lib/shop/jobs"})
	conn, err := server.Connect()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	resize, err := jobs.NewQueue[Picture, Size](ctx, store, "resize", jobs.QueueOptions{})

	worker, err := resize.Work(func(ctx context.Context, job *jobs.Job[Picture]) (Size, error) {
		return scale(ctx, job.Input)
	}, jobs.WorkerOptions{})

	job, err := resize.Submit(ctx, picture, jobs.SubmitOptions{})
	size, err := job.Wait(ctx)

Submitter and worker may be different programs. [Queue.Job] returns the [Handle]
of a job by its ID in any of them.

# Promises

When Submit returns a Handle, the job is as durable as [Handle.Durability]
reports: [DurabilityProcess] survives a killed process, [DurabilityDisk] also a power
loss, and [DurabilityMajority] the loss of a minority of the servers. The job runs at
least once and has exactly one outcome, whatever dies in between. A worker that has
died is detected when it has not renewed its lease for QueueOptions.Lease (10 s),
however long its jobs may run. Each attempt has a fence, a number that grows with
each attempt; only the outcome of the last one is kept. After [Handle.Cancel] has
returned nil, no attempt starts and no result is kept.

There is no promise about the order of jobs, nor that the effects of a handler happen
once. If a worker was only paused and not dead, its attempt runs beside the next one
for a while; its context ends with [ErrLeaseLost]. So make handlers repeatable: use
the job's ID, or its Fence, which the target can compare. docs/explain/jobs.md
describes what happens on each failure.

# Keys

SubmitOptions.Key combines equal submissions into one job. While the job is
unfinished, and as long as its result is kept, a Submit with the same key joins it
([Handle.Joined]), from any program. The same key with another input is [ErrConflict].
Restart runs a finished job again. A job that failed, died or was canceled is run again
in any case, unless SubmitOptions.Once is set.

[Queue.SubmitMany] submits many jobs in little more time than one.

SubmitOptions.Serial runs jobs one at a time that must not run together.
QueueOptions.KeyLimit bounds how many jobs of one SubmitOptions.LimitKey run concurrently and
start per second, in the whole fleet.

# Retries and the dead list

An attempt that fails, by an error or a panic, is retried after RetryInitial, then
after twice as long each time, up to RetryMax; [RetryIn] and the RetryAfter of a
*limit.Error override that. After MaxAttempts the job is [StateDead]. Errors of
[Permanent], and those that QueueOptions.Classify calls permanent or not found,
end it at once, as [StateFailed].

A handler whose job cannot run yet returns [Snooze]: the job starts again later, and
the attempt does not count. QueueOptions.MaxSnoozes bounds that.

WorkerOptions.Middleware runs around each attempt, for example for logs, traces and
tenants.

Dead jobs are kept for DeadTTL with their input and the errors of their attempts,
and block nothing. [Store.List] lists them, [Store.Retry] queues one again once its
cause is fixed, and [Store.Drop] deletes it.

[Store.Pause] stops a queue in all programs, until [Store.Resume].

# Fire and forget

With a ResultTTL of [None], a Queue keeps no results: a job disappears soon after it
is done, half a minute later with the default Lease. Use struct{} as the result type.
Failed and dead jobs are kept for DeadTTL.

# Progress and results

[Job.Progress] reports the progress of an attempt, which [Handle.Status] and
[Handle.Watch] return. [Job.Log] adds lines to the job's log, for people. Handle.Wait does
not poll: the server wakes it.

SubmitOptions.Headers are metadata beside the input, which the handler and operators
can read.

SubmitOptions.Delay starts a job later. After SubmitOptions.Deadline it is not started.

# Bounds

A queue accepts MaxQueued jobs, and none while the oldest has waited for longer than
MaxAge. A Store holds MaxBytes, a tenth of which is for results. Beyond these bounds
Submit stores nothing and returns a [*FullError] with the reason and when to retry.
MaxInput and MaxResult bound the size of a job's input and result. A Worker runs
Concurrency jobs concurrently; it can share a Limiter with other callers of the same
service. [Worker.Close] lets jobs finish, or hands them back.

# Calls that take too long

If a Guard's load takes longer than its caller waits, package promote turns it into a
job on the same key, without a second load.

# Tests

Package jobstest runs a handler in a test, without a server.

# Two versions at once

During a deployment, old and new programs share the queues. The package's own format
has a version, in the names of the stream and its subjects and in each message. The
format of the input is yours: increase QueueOptions.Version with it, and decode the
older ones in [Codec].Decode, which receives the version. A worker hands jobs with a
newer input back to newer workers. A job whose input cannot be decoded is dead immediately.

# The server

The package needs NATS 2.11 or newer with JetStream; the tests run 2.15. [DurabilityDisk]
holds on your own server only if it is configured with sync_interval: always; by default
a server flushes every two minutes. Everything of a namespace NS is one stream,
WEIR_JOBS_1_NS, with a consumer per queue. A user of the server needs the rights to
JetStream's requests about these, and to the subjects weir.jobs.1.NS.>,
weir.jobs-changed.1.NS.>, weir.jobs-canceled.1.NS.*, weir.jobs-free.1.NS.*, and weir.jobs-flush.1.

# Errors, and calls after Close

Errors of this package match its sentinels with errors.Is. After [ErrUnavailable] the
operation may still have happened: with a Key, repeat the Submit. After [Store.Close]
every call returns [ErrClosed]. All types are safe for concurrent use.
*/
package jobs
