/*
Package jobshttp provides jobs over HTTP: it makes a slow handler asynchronous,
without changing the handler.

	s, err := jobshttp.New(store, jobshttp.Options{})
	report, err := s.Route(ctx, "report", slow, jobshttp.RouteOptions{})
	workers, err := report.Work(jobs.WorkerOptions{})
	...
	mux.Handle("/report", report)
	mux.Handle(s.Path(), s)

A client that accepts a later response sends Prefer:

	GET /report
	Prefer: respond-async, wait=5

	202 Accepted
	Location: /.weir/jobs/5f0c1d…

# What happens to a request

A request with Prefer: respond-async (RFC 7240), or any request of a [Route] with
a Budget, is a job from the start: it is stored before anything else is done. The
Route then waits for it, for the duration of wait=N or of the Budget. If the job is
done in time, the client gets the handler's response. Otherwise it gets 202 with the
job's address and its durability. The job continues if the client disconnects.

Requests for an upgrade, an event stream or only-if-cached go to the handler
unchanged, as do all requests that do not become jobs.

# One job, or two

Requests with the same Idempotency-Key (draft-ietf-httpapi-idempotency-key-header)
of one principal are one job of the route; a different request with that key gets 422.
Without a key, equal safe requests of one principal are one job as long as its result is
kept; with Cache-Control: no-cache they start a new one. Those of anonymous clients are
separate jobs, unless RouteOptions.ShareAnonymous is set. All other requests are
separate jobs. They have a separate queue, whose name ends in -once: a failed attempt
may have taken effect, so the handler is called once, unless UnsafeAttempts allows more.

A job belongs to a principal: a client with a different one gets 404, as for a job
that does not exist. A client that sends none of RouteOptions.Principal is anonymous.
Any client that has the address of its job, which cannot be guessed, can access it.

# What the handler receives

The original request, from one of the [Workers], which can be in another program.
Idempotency-Key is the client's, or, unless the request is safe, the job's ID; Weir-Job-Attempt and Weir-Job-Fence
identify the attempt, and increase. Prefer, Range and connection fields are
removed, and in safe requests also conditions (If-*): they concern a response that
no client is waiting for. Request trailers are dropped.

429, 502, 503, 504 and an aborted response are retried, after their Retry-After.
Any other response is the result: its status, fields and body, without 1xx responses
and trailers. A body above MaxResult fails the job.

# What is stored

The request with its credentials, which the handler may need, unless DropCredentials
is set; the response; and a hash of the principal. Caches must not store anything under
the path of jobs.

# Status and results

	GET PATH/ID          the status; Prefer: wait=N waits until the job is over
	GET PATH/ID/result   the response; 202 while there is none
	GET PATH/ID/events   server-sent events, also at PATH/ID with that Accept
	DELETE PATH/ID       cancels the job

Call [Service.Drain] before the server is shut down, then [Workers.Close].
*/
package jobshttp
