/*
Package weirhttp puts weir into net/http. It keeps an expensive handler, or the
service behind an HTTP client, alive under high load: identical requests become
one call, responses are cached as HTTP allows, and the number of concurrent calls
is limited.

	h, err := weirhttp.New(report, weirhttp.Options{})
	...
	http.ListenAndServe(address, h)

A [Handler] wraps an http.Handler, a [Transport] wraps an http.RoundTripper. The
rules are the same. Package [github.com/weir-go/weir/gateway] builds a reverse
proxy on it.

# The path of a request

  - A [ClientLimiter] admits the request, or responds with 429.
  - A fresh response in the [Cache] is written immediately.
  - A stale response is written immediately within stale-while-revalidate, and a call
    begins in the background.
  - Otherwise the request waits for a call in flight, or starts one. Options.Limiter
    admits the call, queues it, or rejects it.
  - If the call fails or is rejected, a stale response replaces the error, within
    stale-if-error. Without one the error is 503, 504 or 500; see [Error].

Requests with a body, with a method other than GET and HEAD, for an upgrade or for
an event stream go to the next handler unchanged, under the limits. A successful
request with an unsafe method removes what is stored for its URL.

# When a response is shared

Two requests for one URL may come from two users, and only the response shows
whether both may have it. So a request that waits for a call does not know yet
whether it may have the response. When the headers arrive, the code that decides
about storing also decides, for each waiting request, whether it may have this
response. The requests that may have it read one body, each at its own pace, from
its first byte. The others are released together, into the queue of the Limiter.

A response with a stated freshness above zero is for all requests that match its
Vary. Without it, requests share only if their header fields are equal, apart from
a list such as User-Agent and tracing; then nothing is stored, and no request joins
after the headers. A response with no-store, private, no-cache, Set-Cookie or Vary:
* is for one request only.

Requests with Authorization or Cookie neither wait nor are served from the store,
unless a response of that URL had public or s-maxage (for Authorization,
must-revalidate suffices), or the [Policy] compares the field (Vary) or ignores it
(IgnoreHeaders, IgnoreCookies). An ignored field is also removed from the forwarded
request. So is a parameter that [QueryRules] drop from the query.

Weir remembers for Options.Relearn what the responses of a URL have shown, so that
later requests do not wait unnecessarily.

# Calls and their clients

A call that can be shared belongs to no client. It runs on its own goroutine, with
the values of the first request's context but neither its deadline nor its
cancellation. Clients may leave at any time. When the last one has left, the call's
context is canceled with [ErrAbandoned] as the cause, unless
Options.FinishAbandoned is set. If all of a body that is to be stored has arrived by
then, its length or the terminal event of a stream, the call has one more second to end.

A call for a single request, such as one with Authorization, runs on that request's
goroutine and ends with it.

# Truncated responses

A response that breaks off is broken for every client: the connection or the stream
is reset, so a truncated response never looks complete. An incomplete response is
not stored. A body of up to Options.MaxObject is kept while it arrives, so that late
readers get all of it. Beyond that a window slides over the body, and no request
joins. The window grows for slow readers while calls use less than three eighths of
the Cache. Without that memory, a reader that falls out of the window gets the rest
through a separate call with Range and If-Range, if the response has a strong
validator. Otherwise it is cut off.

# The cache

The Cache implements RFC 9111 in full for a shared cache, in memory, bounded by
bytes: Vary, validation, ranges and conditions against stored responses,
stale-while-revalidate and stale-if-error (RFC 5861), CDN-Cache-Control (RFC 9213).
A [Policy] adds what the origin does not send: a lifetime, windows, the fields that
responses depend on. Handlers for the same URLs share a Cache. [Cache.Invalidate],
[Cache.Expire] and their forms for tags and for everything take precedence over
running calls.

# Reads with a body

A search or a GraphQL query arrives as POST. Options.Reads declares such requests,
which are then looked up, shared and stored like a GET, by what their body says. A
request with the method QUERY is always treated so. See [ReadRule].

# Several instances

With Options.Fleet instances share stored responses through a fleet.Tier. Before a
call that could be shared, the instance asks the Tier. It gets a response, which is
stored here and served as a hit; or the right to make the call; or another instance
makes the call, and this one waits until its response is complete. If a response
must not be shared (see above) or is too large, this is known from its headers, and
the other instances make their own calls immediately. Invalidations reach all instances.
When the Tier is unavailable, each instance continues independently.

An instance uses its copies for FleetOptions.MemoryCap, unless a push announces a
newer response. If a push is lost undetected, a purge on another instance may take
that long to reach it.

# Observability

Responses carry Cache-Status (RFC 9211). A ResponseWriter that is, or wraps, a
[ReceiptWriter] gets a [Receipt]. [Handler.Stats] has counters, an [Observer]
receives failures, and [Handler.Explain] returns what would happen to a request,
and why.

With Options.Observe nothing is shared, stored or rejected. weirhttp counts what
would have been, and compares responses that would have been shared: see
[ObserveStats].

# Goroutines

New starts no goroutines. Each shared call has one while it runs; [Handler.Close]
cancels these calls and waits. A handler that ignores its context keeps its
goroutine and its permit until it returns, but its waiting clients get their
response at HeadTimeout.
*/
package weirhttp
