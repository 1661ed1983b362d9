/*
Package jobshttp is the HTTP form of jobs: it makes a slow handler asynchronous,
without a change to the handler.

	s, err := jobshttp.New(store, jobshttp.Options{})
	report, err := s.Route(ctx, "report", slow, jobshttp.RouteOptions{})
	workers, err := report.Work(jobs.WorkerOptions{})
	...
	mux.Handle("/report", report)
	mux.Handle(s.Path(), s)

A client that can wait for later says so:

	GET /report
	Prefer: respond-async, wait=5

	202 Accepted
	Location: /.weir/jobs/5f0c1d…

# What becomes of a request

A request with Prefer: respond-async (RFC 7240), or any request of a [Route] with
a Budget, is a job from the beginning: it is stored before anything is done. Then
it is waited for, as long as wait=N or the Budget says. Done in time, the answer
is the handler's own. Otherwise it is 202 with the job's address, and how durable
it is. A client that leaves changes nothing.

What asks for an upgrade, an event stream or only-if-cached goes to the handler as
it is, as do requests that do not take part.

# One job, or two

Requests with the same Idempotency-Key (draft-ietf-httpapi-idempotency-key-header)
of one principal are one job of the route; another request with that key is 422.
Without it, safe requests of one principal that are alike are one job as long as its
result is kept, and a new one with Cache-Control: no-cache; those of anonymous
clients are a job each, unless RouteOptions.ShareAnonymous is set. Other requests
are a job each. They are in a queue of their own, whose name ends in -once, as what
was begun of them may have happened: the handler is called once, unless
UnsafeAttempts allows more.

A job belongs to a principal: a client that sends another one gets 404, as for a job
that does not exist. A client that sends none of RouteOptions.Principal is anonymous;
the address of its job, which nobody can guess, is what lets it in.

# What the handler sees

The request as it came, from one of the [Workers], which may be in another
program. Idempotency-Key is the client's, or the job's ID; Weir-Job-Attempt and
Weir-Job-Fence tell attempts apart, and grow. Left out are Prefer, Range, fields
of the connection, and in safe requests conditions (If-*): those are for an answer
that nobody waits for. Request trailers are dropped.

429, 502, 503, 504 and a broken answer are tried again, after their Retry-After.
Any other answer is the result: its status, fields and body, without 1xx and
trailers. A body above MaxResult fails the job.

# What is stored

The request with its credentials, for the handler may need them, unless
DropCredentials is set; the answer; a hash that stands for the principal. Nothing
under the path of jobs may be kept by caches.

# Asking

	GET PATH/ID          how it stands; Prefer: wait=N waits until it is over
	GET PATH/ID/result   the answer; 202 while there is none
	GET PATH/ID/events   server-sent events, also at PATH/ID with that Accept
	DELETE PATH/ID       cancels

Call [Service.Leave] before the server is shut down, then [Workers.Stop].
*/
package jobshttp
