/*
Package weirotel reports what Guards, HTTP handlers and gateways do to OpenTelemetry,
as traces and as metrics.

	t, err := weirotel.New(weirotel.Options{
		TracerProvider: otel.GetTracerProvider(),
		MeterProvider:  otel.GetMeterProvider(),
	})
	...
	prices, err := weir.New(load, weir.Options{Name: "prices", Observer: t.Guards()})
	...
	err = t.AddGuard(prices)

# Traces

Each load has one span, "weir load NAME", a child of the span of the caller that
started it. A background load has a separate trace, with a link to the call that
started it. A call that waits for another call's load has a span "weir wait NAME" in
its own trace, with a link to the load's span. So has a call whose load never began,
because it was refused or another instance of the fleet had the result. Hits have no
span.

A call of gRPC that shares nothing has the span of a load, and one that was not admitted the
span of a wait. An admitted stream has a span "weir stream NAME" until it ends, which is in
no duration.

HTTP works the same way: one span per upstream call, of kind client and following
OpenTelemetry's conventions, and one for each request that waits for another
request's call. The call carries the span's trace context (traceparent) instead of
the client's. [Telemetry.Middleware] reads the client's trace context into the
request's context. Without a Middleware the call still belongs to the client's trace,
but waits have separate traces.

The span of a load has the attributes weir.guard, weir.keys (how many), weir.background,
weir.outcome (loaded, not_found, failed), weir.queued (seconds of waiting for
admission, before the span begins) and weir.late (the load was abandoned earlier, and
its result is discarded). A failed load has the status Error, error.type and
weir.class. Refusals and panics are events: weir.refused with its weir.reason, and
exception.

Texts of errors and panics, URLs, and keys can contain anything. Texts are recorded
only with Options.ErrorMessages, URLs only with Options.URLs, and keys never.
error.type is a word (panic, goexit, timeout, canceled, abandoned, limited, stuck,
closed), or otherwise the Go type of the error. An error with the method ErrorType()
string chooses its own; it must return a bounded number of values. Those of package
weirgrpc return the name of the code, such as Unavailable.

# Metrics

Recorded when they happen, in seconds, and never for a hit of a Guard:

	weir.load.duration            weir.guard, weir.outcome, weir.background, error.type
	weir.wait.duration            weir.guard or weir.route, weir.joined, error.type
	http.client.request.duration  weir.route, http.request.method, http.response.status_code, error.type
	http.server.request.duration  http.route, weir.outcome, http.request.method, url.scheme,
	                              http.response.status_code, network.protocol.version, error.type
	http.server.active_requests   http.request.method, url.scheme

A Middleware records the two http.server metrics. http.client.request.duration omits
server.address and server.port, against the conventions: behind a handler, clients
choose their values, so there would be no bound on them.

Read from Stats when metrics are collected, for everything added with AddGuard,
AddRoute and AddGateway, by weir.guard or weir.route: weir.avoided by weir.kind,
weir.refused by weir.reason, weir.failures by weir.kind, weir.loads, weir.refreshes,
weir.abandoned, weir.stale_on_error, weir.running; of Guards weir.not_found,
weir.timeouts, weir.panics, weir.superseded, weir.skipped, weir.evictions,
weir.entries, weir.flights, weir.refreshing, weir.stuck and weir.calls; of routes
weir.requests, weir.missed, weir.unanswered, weir.left, weir.left_midway,
weir.lagged, weir.resumed, weir.waiting, weir.streams,
weir.slow_clients_cut by weir.reason, weir.reads and weir.read_ahead by weir.kind. The kind fleet is also included in hit and stale.

Of gRPC methods, added with AddInterceptor, by weir.interceptor and weir.method:
weir.grpc.calls, streams, executed, failed and running, avoided, errors and cost by
weir.kind, observed by weir.kind, alone and refused by weir.reason.

Of limiters, by weir.limit, which is the name of the upstream, of the limiter, of the
Guard or of the interceptor: weir.limit.permits, in_use, queued, overloaded, latency, baseline, admitted,
waited, and refused by weir.reason. Of a gateway weir.gateway.unrouted and rejected;
by weir.route, weir.upstream, weir.reason and weir.kind weir.fallback.requests;
by weir.upstream weir.upstream.retries and retries_refused; by weir.server too
weir.server.healthy, ejected, penalized, weight, head, failing, kept, moved,
in_flight, calls and failures; by weir.route weir.hedges by weir.result,
weir.hedges.refused by weir.reason, and weir.hedges.delay; of its cache
weir.cache.size, limit, responses, evictions, purges and too_big. Of a fleet, by
weir.guard, or without one for the cache: weir.fleet.open, acquires by weir.result,
unavailable, lost_leases, waits, pushes and resets.

# Dependencies

Package weirotel requires the API of OpenTelemetry, but not its package otel of global
providers, which would add three more modules. So providers are passed in, and nil
means none. The SDK is required only by tests, and by package requests, which counts
requests at a lower cost than an instrument of the SDK.
*/
package weirotel
