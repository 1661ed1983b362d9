/*
Package promote turns a call that takes too long into a job: a Guard's load that
outlives what its caller is ready to wait becomes a job on the same key, and the
caller goes away with the job's [jobs.Handle] in place of a value.

	reports, err := weir.New(makeReport, weir.Options{TTL: time.Hour})
	queue, err := jobs.NewQueue[string, Report](ctx, store, "reports", jobs.QueueOptions{})
	later, err := promote.New(reports, queue, promote.Options[string]{Budget: 2 * time.Second})
	worker, err := later.Work(jobs.WorkerOptions{})

	report, job, err := later.Get(ctx, "2026-10")
	switch {
	case err != nil: // what the load, or the queue, failed with
	case job != nil: // later: tell the client job.ID()
	default: // report
	}

# What goes on

The load is not begun anew: it goes on where it is, and the Promoter keeps the
caller's place in it, so that it is not abandoned. A worker that takes the job
asks the Guard for the key. In the same process it joins the load that is going
on; in another one, with a weir.Fleet, it waits for it as any instance does. So
there is one load. If the process dies in the middle, its job is started again
within the Lease of the queue, and then the key is loaded again.

The Guard decides what becomes of the value, the job of the result. A write or an
invalidation beats the load as always: what is overtaken is not kept by the Guard,
nor by the fleet's Tier, which compares fences; the worker then asks again, so
that the result is not older than an invalidation it received before it ended. The
job's own fence decides whose result is the job's.

Without a fleet each process loads for itself: a worker in another process does
not know of the load here, and its value is in that process's memory only. Callers
have the job's result, by [jobs.Handle.Wait].

# Later callers

Later callers ask the Guard as ever, for as long as they are ready to wait: they
get a value from memory, or join the load. If that takes too long for them too,
they get the Handle of the job that is there. Within one process nothing is
submitted for that; in others Submit joins by the key. The job's key is that of
the Guard, as a name (Options.KeyString). A job that is done says nothing about
whether its value is still fresh, which the Guard knows; so a new promotion begins
it anew.

A Guard that keeps no values (TTL zero) loads again if the load has ended when a
worker takes the job.

# Refusals

A load that the Guard's Limiter refuses, or ErrStuck, is promoted too: the call is
made later, when there is room, and the queue's own bounds (jobs.ErrFull) are what
refuses then. Options.Refuse hands refusals to the caller instead. A worker whose
load is refused waits for the refusal's RetryAfter and asks again, in the same
attempt: its place among the Worker's Concurrency is what holds the others back, and
no job dies of a busy source.

Other errors of the load go to the caller, if they come in time, as does
weir.ErrNotFound, which is an answer. In a job, those of weir.ClassPermanent and
ClassNotFound (by the Guard's Classify) fail it at once; the others are retried.

# The end

Stop the Worker, then Close the Promoter, the Guard, and the Store.
*/
package promote
