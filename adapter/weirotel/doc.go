/*
Package weirotel tells OpenTelemetry what Guards, HTTP handlers and gateways do,
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

There is one span a load, "weir load NAME", below the span of the caller that has
started it. A load in the background has a trace of its own, with a link to the
call that happened to start it. A call that waits for another's load has a span
"weir wait NAME" in its own trace, with a link to the load's; so has one whose load
never began, as it was refused or another instance of the fleet had the answer. A
hit has none.

It is the same with HTTP: one span a call of what stands behind, of the client kind
and after OpenTelemetry's conventions, and one for each request that waits for
another's call. The call carries the span's trace context (traceparent) in place of
the client's. [Telemetry.Middleware] takes the client's into the request's context;
without one the call belongs to it all the same, and waits have traces of their own.

A span of a load has the attributes weir.guard, weir.keys (how many), weir.background,
weir.outcome (loaded, not_found, failed), weir.queued (seconds of waiting for
admission, before the span begins) and weir.late (it was given up before, and its
result is thrown away). What failed has the status Error, error.type and weir.class.
Refusals and panics are events, weir.refused with its weir.reason, and exception.

A text of an error or a panic may hold anything, and so may a URL, or a key: the
first is recorded with Options.ErrorMessages, the second with Options.URLs, and the
third never. error.type is a word (panic, goexit, timeout, canceled, abandoned,
limited, stuck, closed), or else the type of the error in Go.

# Metrics

Recorded when it happens, in seconds, which is never at a hit:

	weir.load.duration            weir.guard, weir.outcome, weir.background, error.type
	weir.wait.duration            weir.guard or weir.route, weir.joined, error.type
	http.client.request.duration  weir.route, http.request.method, http.response.status_code, error.type
	http.server.request.duration  http.route, weir.outcome, http.request.method, url.scheme,
	                              http.response.status_code, network.protocol.version, error.type
	http.server.active_requests   http.request.method, url.scheme

The two of servers are those of a Middleware. server.address and server.port are
left out of http.client.request.duration, against the conventions: behind a
handler they are what clients have sent, and so without bound.

Read from Stats when metrics are collected, for what was added with AddGuard,
AddRoute and AddGateway, by weir.guard or weir.route: weir.avoided by weir.kind,
weir.refused by weir.reason, weir.failures by weir.kind, weir.loads, weir.refreshes,
weir.abandoned, weir.stale_on_error, weir.running; of Guards weir.not_found,
weir.timeouts, weir.panics, weir.superseded, weir.skipped, weir.evictions,
weir.entries, weir.flights, weir.refreshing, weir.stuck and weir.calls; of routes
weir.requests, weir.missed, weir.unanswered, weir.left, weir.left_midway,
weir.lagged, weir.waiting, weir.streams, weir.slow_clients_cut by weir.reason, and
weir.read_ahead by weir.kind. What is of the kind fleet is among hit and stale too.

Of limiters, by weir.limit, which is the upstream, the limiter's own name or the
Guard's: weir.limit.permits, in_use, queued, overloaded, latency, baseline, admitted,
waited, and refused by weir.reason. Of a gateway weir.gateway.unrouted and rejected;
by weir.upstream weir.upstream.retries and retries_refused; by weir.server too
weir.server.healthy, ejected, in_flight, calls and failures; of its cache
weir.cache.size, limit, responses, evictions, purges and too_big. Of a fleet, by
weir.guard, or without one for the cache: weir.fleet.open, acquires by weir.result,
unavailable, lost_leases, waits, pushes and resets.

# What it requires

The API of OpenTelemetry, without its package otel of global providers, which would
bring three more modules; and the SDK in tests only, and in package requests, which
counts requests for less than an instrument of the SDK does. So providers are given,
and nil means none.
*/
package weirotel
