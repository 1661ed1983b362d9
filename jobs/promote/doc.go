/*
Package promote turns calls that take too long into jobs. If a Guard's load outlives
the time that its caller is ready to wait, it becomes a job on the same key, and the
caller gets the job's [jobs.Handle] instead of a value.

	reports, err := weir.New(makeReport, weir.Options{TTL: time.Hour})
	queue, err := jobs.NewQueue[string, Report](ctx, store, "reports", jobs.QueueOptions{})
	later, err := promote.New(reports, queue, promote.Options[string]{Budget: 2 * time.Second})
	worker, err := later.Work(jobs.WorkerOptions{})

	report, job, err := later.Get(ctx, "2026-10")
	switch {
	case err != nil: // the load or the queue failed
	case job != nil: // later: send the client job.ID()
	default: // report
	}

# How it works

The load is not restarted. It continues, and the Promoter keeps the caller's place in
it, so that it is not abandoned. A worker that takes the job calls the Guard with the
key. In the same process it joins the running load; in another one, with a weir.Fleet,
it waits for the load as any instance does. So there is one load. If the process dies
in the middle, its job is started again within the Lease of the queue, and then the key
is loaded again.

The Guard decides whether to store the value, and the job whether to keep the result.
A write or an invalidation takes precedence over the load as always. A superseded value
is not stored by the Guard, nor by the fleet's Tier, which compares fences. The worker
then loads again, so that the result is not older than an invalidation it received
before it ended. The job's own fence decides which attempt's result the job keeps.

Without a fleet each process loads separately: a worker in another process does not
know of the load here, and its value is only in that process's memory. Callers get the
job's result from [jobs.Handle.Wait].

# Later callers

Later callers call the Guard as usual, for as long as they are ready to wait: they get
a value from memory, or join the load. If that takes too long for them too, they get
the Handle of the existing job. In the same process this needs no Submit; in other
processes Submit joins by the key. The job's key is the name of the Guard's key
(Options.KeyString). Only the Guard knows whether the value of a finished job is still
fresh, so a new promotion runs the job again.

A Guard that keeps no values (TTL zero) loads again if the load has ended when a
worker takes the job.

# Refusals

Loads that the Guard's Limiter refuses, or that fail with ErrStuck, are promoted too:
the load runs later, when there is capacity, and only the queue's own bounds
(jobs.ErrFull) refuse the call. Options.Refuse returns refusals to the caller instead. A
worker whose load is refused waits for the refusal's RetryAfter and tries again within
the same attempt. Meanwhile it occupies a slot of the Worker's Concurrency, so fewer other
jobs start. No job dies because its source is busy.

Other errors of the load are returned to the caller if they come in time, as is
weir.ErrNotFound, which is a result. In a job, errors of weir.ClassPermanent and
ClassNotFound (by the Guard's Classify) fail it at once; the others are retried.

# Shutdown

Close the Worker first, then the Promoter, the Guard, and the Store.
*/
package promote
