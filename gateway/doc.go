/*
Package gateway is a reverse proxy that keeps a slow service available under load:

	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{"http://10.0.0.11:3000"}}},
		Routes:    []gateway.Route{{Name: "all"}},
	})
	...
	http.ListenAndServe(address, g)

The program weir proxy is this package with listeners, a configuration file and
signal handling.

# Routes

A [Route] matches requests by host, path and method, and sets how they are
treated: what is cached, how often a client may send requests, how long a call may
take. If several match, the most specific one wins. All routes share one cache, so a PUT through one removes what another has stored. A request without a route
gets 404.

# Upstreams

An [Upstream] is a pool of equivalent servers. A call goes to the less busy of two
servers chosen at random. A server that fails checks, or several calls in a row, is
not used for a while; if all servers fail, all are used. Over all servers, 256 calls
run concurrently by default, others wait in a queue with priority classes, and the rest
get 503 with Retry-After. Adaptive finds the limit from the latency.

A request runs once at a server. Only if nothing of it was sent does the Gateway
try another server. [Retry] allows retries within a budget.

# Changes to messages

Path, query, Host, body and trailers reach the server unchanged, and the response's
status, fields and body reach the client. [Upstream] and [Route] can set another Host, a
base path and a prefix to remove, which changes neither the cache key nor the response. The Gateway adds Via, X-Request-Id,
X-Forwarded-For, -Proto and -Host to requests, and Via, Age, Cache-Status and, except to
hits, X-Request-Id to responses. It trusts X-Forwarded fields of TrustedProxies only and removes them from
other requests. Config can set and remove other fields: those of responses before
they are cached, those of requests after the cache.

If a forwarded request comes back to the same Gateway, it gets 508: each Gateway adds
a random name to CDN-Loop (RFC 8586) and keeps the names of others.

CONNECT, TRACE and upgrades to other versions of HTTP or to TLS are rejected;
WebSocket passes. Invalid methods, authorities and trailer names are rejected, and
responses with ambiguous framing or fields become 502.

The server of net/http repairs some requests before a handler sees them: it drops a
Content-Length beside a Transfer-Encoding, ignores a Transfer-Encoding in HTTP/1.0, and
unfolds lines. A Gateway frames what it forwards anew, so no server is misled, but only
the listeners of weir proxy reject such requests.

# At run time

[Gateway.Update] replaces the configuration for later requests. Connections,
health, queues and counters of everything that keeps its name and has not changed
stay. [Gateway.Stats] counts by route and upstream, [Gateway.Explain] reports how a
request would be treated, and [Gateway.Cache] purges.

[Config.Front] puts a handler in front of routes, after their Rate. It forwards
requests with [Gateway.ServeRoute], at once or later, as package jobs/jobshttp does.

Listeners and their timeouts belong to the caller: set ReadHeaderTimeout,
IdleTimeout and DisableGeneralOptionsHandler of http.Server (without the last one,
OPTIONS * does not arrive). Close the Gateway after the server has stopped.
*/
package gateway
