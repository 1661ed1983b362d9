/*
Package jobstest runs the handlers of package jobs in tests, without a server.

	kit, err := jobstest.New(resize, jobstest.Options{})
	job, err := kit.Submit(picture, jobs.SubmitOptions{})
	attempt := job.Attempt(t.Context())

A [Job] is treated as by a Worker: the input is encoded and decoded, Middleware runs, a
panic is an error, and the same code decides what an error means for the job. The
[Attempt] has that outcome: the result, or the wait before the next attempt, or the end
of the job. [Job.Finish] runs attempts until the job is over.

No test has to wait: the wait before an attempt is skipped, and the job's clock runs ahead
by it. Handlers that wait themselves, and QueueOptions.AttemptTimeout, take no time in a
testing/synctest bubble.

To test what a handler does when its job is canceled, give the attempt a context that
ends with that cause:

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrCanceled)

With [jobs.ErrLeaseLost] another attempt follows, and with [jobs.ErrStopping] the job is
handed back.

Queues with Workers, keys, and limits need a server: package embedded starts one in some
milliseconds, in a temporary folder.
*/
package jobstest
