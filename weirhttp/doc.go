/*
Package weirhttp puts weir into net/http. It keeps an expensive handler, or the
service behind an HTTP client, alive under high load: requests for the same
thing become one call, answers are kept as HTTP allows, and no more calls run at
once than can be borne.

	h, err := weirhttp.New(report, weirhttp.Options{})
	...
	http.ListenAndServe(address, h)

A [Handler] stands before an http.Handler, a [Transport] before an
http.RoundTripper. The rules are the same. Package
[github.com/weir-go/weir/gateway] makes a reverse proxy of it.

# What becomes of a request

  - A [ClientLimiter] admits the request, or answers 429.
  - A fresh answer from the [Cache] is written at once.
  - A stale one is, within stale-while-revalidate, and a call begins behind it.
  - Otherwise it waits for a call that is under way, or makes one. Before the
    call, Options.Limiter admits it, lets it wait, or refuses it.
  - If the call fails or is refused, a stale answer takes the place of the error,
    within stale-if-error. Without one it is 503, 504 or 500; see [Error].

What has a body, another method than GET and HEAD, asks for an upgrade or for an
event stream goes to the next handler as it is, under the limits. A request with
an unsafe method that succeeds removes what is stored for its URL.

# Sharing by proof

Two requests for one URL may be for two people, and only the answer says so. So
requests wait for a call tentatively. When the head of the answer is there, the
same code that decides about storing decides, for each of them, whether it may
have this answer. Those that may read one body, each at its own pace, from its
first byte. Those that may not are released together, into Limiter's queue.

Freshness that is stated, and above zero, proves that an answer is for all that
match its Vary. Without it, requests share only if their fields are equal, but
for a list such as User-Agent and tracing; then nothing is stored, and nobody
joins after the head. An answer with no-store, private, no-cache, Set-Cookie or
Vary: * is for one request.

Requests with Authorization or Cookie neither wait nor are served from the
store, unless an answer of that URL has said public or s-maxage (for
Authorization, must-revalidate does as well), or the [Policy] says that the field
is compared (Vary) or has no say (IgnoreHeaders, IgnoreCookies). What has no say
is taken out of what is forwarded, too.

What answers have taught about a URL is remembered for Options.Relearn, so that
the next requests do not wait in vain.

# Whose call it is

A call that can be shared belongs to no client. It runs on a goroutine of its
own, with the values of the first request's context and neither its deadline nor
its cancellation. Clients leave when they like. When the last one has left, the
call's context is canceled with [ErrAbandoned] as the cause, unless
Options.FinishAbandoned lets it go on.

A call for one request alone, such as one with Authorization, runs on that
request's goroutine and ends with it.

# The end of an answer

An answer that breaks off is broken for every client: the connection or the
stream is reset, and it is never a short one that looks whole. What is not whole
is not stored. A body up to Options.MaxObject is kept while it comes, so that who
comes late reads all of it. Past that a window slides over it, nobody joins, and a
reader that falls out of the window is cut off.

# What is kept

RFC 9111 in full for a shared cache, in memory, bounded by bytes: Vary,
validation, ranges and conditions against what is stored, stale-while-revalidate
and stale-if-error (RFC 5861), CDN-Cache-Control (RFC 9213). A [Policy] says what
the origin does not: a lifetime, windows, what answers depend on. Handlers that
answer for the same URLs share a Cache. [Cache.Invalidate], [Cache.Expire] and
their forms for tags and for everything beat calls that are running.

# Several instances

With Options.Fleet instances share what they store, through a fleet.Tier. Before a
call that could be shared the Tier is asked. It has the answer, which is then
stored here and given as a hit; or it grants the call to this instance; or
another one makes it, and is waited for, until its answer is whole. What is not
for others (see above), or is too large, is said at its head, and the others go
on by themselves at once. Invalidations reach all. When the Tier is
unavailable each instance goes on alone.

An instance uses its copies for FleetOptions.MemoryCap, unless it is told before
that there is something newer. So late it may serve what was purged elsewhere, if
a push was lost and nobody noticed.

# Seeing what happens

Answers carry Cache-Status (RFC 9211). A ResponseWriter that is, or wraps, a
[ReceiptWriter] gets a [Receipt]. [Handler.Stats] counts, an [Observer] is notified of what went
wrong, and [Handler.Explain] tells what would become of a request, and why.

With Options.Observe nothing is shared, stored or refused. It is counted what
would have been, and answers that would have been shared are compared: see
[ObserveStats].

# Goroutines

New starts none. Each shared call has one while it runs; [Handler.Close] cancels
them and waits. A handler that ignores its context keeps its goroutine and its
permit until it returns, while those who wait are answered at HeadTimeout.
*/
package weirhttp
