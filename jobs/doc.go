/*
Package jobs runs calls later: what is too expensive to wait for is accepted
durably at once, and made by workers, with retries and a result that can be
waited for. It keeps jobs on NATS JetStream: on a server inside the program, or
on a cluster, by changing an address.

# A first program

The server is package embedded's, a [Store] keeps jobs on it, and a [Queue] knows
the types of one kind of job: what goes in, and what comes out.

	server, err := embedded.Start(embedded.Options{Dir: "/var/lib/shop/jobs"})
	conn, err := server.Connect()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	resize, err := jobs.NewQueue[Picture, Size](ctx, store, "resize", jobs.QueueOptions{})

	worker, err := resize.Work(func(ctx context.Context, job *jobs.Job[Picture]) (Size, error) {
		return scale(ctx, job.Input)
	}, jobs.WorkerOptions{})

	job, err := resize.Submit(ctx, picture, jobs.SubmitOptions{})
	size, err := job.Wait(ctx)

Submitter and worker need not be the same program. Any of them has a
[Handle] of a job by its ID, with [Queue.Job].

# What is promised

A Submit that returns a Handle has the job as durably as [Handle.Durability]
says: [DurabilityProcess] (a killed process loses nothing), [DurabilityDisk] (nor does a loss of
power), or [DurabilityMajority] (nor the loss of a minority of the servers). It is run at
least once, and has exactly one outcome, whatever dies in between: a worker that
dies is noticed when it has not been heard of for QueueOptions.Lease (10 s),
however long its jobs may take. Each attempt has a fence, a number that grows with
each of them; only the last attempt's outcome is kept. After a [Handle.Cancel]
that has returned nil no attempt starts, and no result is kept.

Not promised: an order among jobs, and that what a handler does elsewhere is done
once. An attempt whose worker seems dead, and was only paused, goes on beside the
next one for a while; its context ends with [ErrLeaseLost]. So a handler makes
what it does repeatable: under the job's ID, or with its Fence, which the target
compares. docs/explain/jobs.md has what happens on which failure.

# Keys

SubmitOptions.Key makes equal submissions one job: while it is not over, and as
long as its result is kept, a Submit with the key joins it ([Handle.Joined]), in
whatever program. The same key with another input is [ErrConflict]. Restart begins
a job anew that is done. One that has failed, is dead or was canceled is begun
anew in any case.

SubmitOptions.Serial lets jobs run one at a time that must not run together.

# Retries and the dead list

An attempt that fails, by an error or a panic, is followed by another, after
RetryInitial, and twice as long each time up to RetryMax; [RetryIn] and the
RetryAfter of a *limit.Error say otherwise. After MaxAttempts the job is [StateDead].
Errors of [Permanent], and those that QueueOptions.Classify calls permanent or not
found, end it at once, as [StateFailed].

Dead jobs are kept for DeadTTL with their input and the errors of their attempts,
and block nobody. [Store.List] finds them, [Store.Retry] queues one again when its
cause is mended, [Store.Drop] forgets it.

# Events

A Queue with a ResultTTL of [None] is fire and forget: nothing is left of a job
soon after it is done, half a minute with the default Lease. The Out is struct{}
then. One that has failed, or is dead, is kept for DeadTTL.

# Progress, and the end

[Job.Progress] reports how far an attempt is, [Handle.Status] and [Handle.Watch]
tell. The Handle's Wait is woken by the server, not by polling.

SubmitOptions.Delay starts a job later; Deadline does not start it too late.

# Bounds

A queue takes MaxQueued jobs, and none while the oldest has waited for longer than
MaxAge; a Store takes MaxBytes, of which a tenth is for results. Beyond that
Submit returns a [*FullError] with the reason and the time to come back, and
nothing of the job is kept. MaxInput and MaxResult bound what one of them takes.
A Worker has Concurrency jobs at once, and a Limiter shared with what else calls
the same service. [Worker.Stop] lets them finish, or hands them back.

# Calls that take too long

Package promote turns a Guard's load that takes longer than its caller waits into
a job on the same key: from waiting to later, without a second load.

# Two versions at once

During a deploy old and new programs share the queues. What this package itself
writes has a version, in the names of the stream and its subjects, and in each
message. An input's form is yours: raise QueueOptions.Version with it, and accept
the older ones in [Codec].Decode, which gets the version. A worker hands jobs with a
newer input back, so that a new worker gets them. An input that does not decode
makes its job dead at once.

# The server

It is NATS 2.11 or newer, with JetStream; the tests have 2.15. Of a server of your
own that is not set to sync_interval: always, [DurabilityDisk] is not true: by default it
flushes every two minutes. Everything of a namespace NS is one stream,
WEIR_JOBS_1_NS, with a consumer for each queue. A user of the server needs the
rights to JetStream's requests about these, and to the subjects weir.jobs.1.NS.>,
weir.jobs-changed.1.NS.>, weir.jobs-canceled.1.NS.*, and weir.jobs-flush.1.

# Errors, and calling after Close

The errors of this package match its sentinels, by errors.Is. [ErrUnavailable] is
the one with which something may have happened all the same: with a Key, Submit
again. After [Store.Close] everything returns [ErrClosed]. All types are safe for
concurrent use.
*/
package jobs
