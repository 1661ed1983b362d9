/*
Package gateway is a reverse proxy that keeps a slow service alive under load:
package [github.com/weir-go/weir/weirhttp] before servers, with routes.

	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{"http://10.0.0.11:3000"}}},
		Routes:    []gateway.Route{{Name: "all"}},
	})
	...
	http.ListenAndServe(address, g)

The program weir proxy is this package with listeners, a configuration file and
signals around it.

# Routes

A [Route] says which requests it is for, by host, path and method, and what
becomes of them: what is cached, how often a client may ask, how long it may
take. Of several that match, the one that says most wins. All share one cache,
so that a PUT by one route removes what another has stored. Without a route it is
404.

# Upstreams

An [Upstream] is a pool of servers that do the same. A call goes to the less busy
of two that are drawn. Servers that fail checks, or call after call, are left
alone for a while; if all do, all are used. Over all servers, a number of calls
run at once (256 by default), others wait in a queue with classes, and the rest
is refused with 503 and Retry-After. Adaptive finds the number.

A request runs at a server once. Only one of which nothing was sent goes to
another server by itself. [Retry] allows more, within a budget.

# Nothing is changed on the way

Path, query, Host, body and trailers reach the server as they came, and the
answer's status, fields and body reach the client. Added are Via, X-Request-Id,
X-Forwarded-For, -Proto and -Host on the way up; on the way down Via, Age and
Cache-Status. X-Forwarded fields are believed from TrustedProxies only, and taken
out of what anybody else sends. Config can set and remove other fields: those of
answers before the cache looks at them, those of requests after.

A request that comes back to the Gateway that forwarded it is answered with 508: each
Gateway adds a random name of its own to CDN-Loop (RFC 8586) and keeps those of others.

CONNECT, TRACE and upgrades to other versions of HTTP or to TLS are refused.
WebSocket passes. So are methods, authorities and trailer names that are none, and
answers of servers whose framing or fields are not clear: 502.

net/http's server mends some of what it reads, and a handler cannot tell: it drops a
Content-Length beside a Transfer-Encoding, ignores a Transfer-Encoding in HTTP/1.0, and
unfolds lines. What a Gateway sends on is framed anew, so no server is misled, but only
the listeners of weir proxy refuse such requests.

# While it runs

[Gateway.Update] replaces the configuration for requests that come from then on.
What has not changed stays, by name: connections, health, queues, counters.
[Gateway.Stats] counts by route and upstream, [Gateway.Explain] tells what would
become of a request, and [Gateway.Cache] is there to purge.

[Config.Front] puts something before routes, behind their Rate, that reaches them
by [Gateway.ServeRoute], at once or later: package jobs/jobshttp, for one.

Listeners are the caller's, and so are their time-outs: set ReadHeaderTimeout and
IdleTimeout of http.Server, and DisableGeneralOptionsHandler, or OPTIONS * does
not arrive. Close the Gateway after the server has ended.
*/
package gateway
