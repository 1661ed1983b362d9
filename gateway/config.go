package gateway

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Config is what a Gateway does. It is not altered. Zero values mean the
// documented defaults.
type Config struct {
	// Upstreams are what stands behind. At least one.
	Upstreams []Upstream
	// Routes are looked at in order of how much they ask for: see [Route]. A
	// request that none matches gets 404.
	Routes []Route
	// Cache is shared by all routes. nil means one with 64 MiB.
	Cache *weirhttp.Cache
	// Fleet lets several gateways be one. nil means that each is alone.
	Fleet *Fleet
	// TrustedProxies are the networks whose X-Forwarded-For, -Proto and -Host are
	// believed and passed on. From other peers they are removed. nil trusts
	// none.
	TrustedProxies []netip.Prefix
	// Name is who we are in Via, Cache-Status and Proxy-Status, as that of an
	// Upstream. Empty means "weir".
	Name string
	// MaxPasses is how often a request may pass this Gateway: an origin may send it
	// back through it on purpose. One that comes again is answered with 508
	// (RFC 5842), before anything else is done with it. 0 means 1, at most
	// MaxPassesBound.
	//
	// Each New makes a random name, which the Gateway adds to CDN-Loop (RFC 8586)
	// of what it forwards. The names of others are kept.
	MaxPasses int
	// MaxDrain is how much of a request body that the upstream did not read is
	// read and thrown away to keep the client's connection. 0 means 256 KiB.
	MaxDrain int64
	// Clients bounds what slow clients can take from others. ReadAheadMemory is of
	// all routes together, BlockedShare of each upstream, and of each route's own
	// cap. The zero value is safe.
	Clients weirhttp.ClientLimits
	// Observer is notified of what happens. nil costs nothing.
	Observer weirhttp.Observer
	// ErrorHandler writes the responses that the Gateway and its routes make themselves:
	// refusals, requests without a route, and errors where there is nothing stale to
	// serve. nil means a line of plain text. See weirhttp.Options.
	ErrorHandler weirhttp.ErrorHandler
	// Front returns what answers the requests of a route in its place, nil for
	// the route itself; it reaches that by ServeRoute. It is called for each
	// request that the route's Rate has let in, but not in observe mode, and must
	// not block. nil means that there is nothing before routes.
	Front func(route string) http.Handler
}

// Fleet is what several gateways share: cached answers, calls under way, purges,
// and the rates of clients. It stays as it is until Close, but for RateFailure
// and Instances.
type Fleet struct {
	// Config says what is shared, and for how long. Its Tier is required. If that
	// counts permits (fleet.Abilities), Route.Rate holds for all gateways together.
	fleet.Config
	// MaxObject: see weirhttp.FleetOptions.
	MaxObject int64
	// RateFailure says what becomes of Route.Rate while the Tier is away.
	// Required where a route in the fleet has one.
	RateFailure fleet.FailureMode
	// Instances is how many gateways there are at most, for fleet.FailLocalShare.
	Instances int
	// Logger: see weirhttp.FleetOptions.
	Logger *slog.Logger
}

// options returns what of f is for the cache.
func (f *Fleet) options() weirhttp.FleetOptions {
	if f == nil {
		return weirhttp.FleetOptions{}
	}
	return weirhttp.FleetOptions{Config: f.Config, MaxObject: f.MaxObject, Logger: f.Logger}
}

// An Upstream is a pool of servers that do the same.
type Upstream struct {
	// Name is what routes call it: 1 to 64 letters, digits, ".", "_" and "-",
	// the first a letter. It must be unique.
	Name string
	// Servers are base URLs without a path: http://host:port, https://…, and
	// h2c://… for HTTP/2 without TLS.
	Servers []string

	// Concurrency is how many calls run at once, over all servers. 0 means 256,
	// negative means no cap. With Adaptive it is the most that is tried.
	Concurrency int
	// Adaptive finds the number from the latency (limit.Adaptive).
	Adaptive bool
	// Queue is how many requests may wait for a call. 0 means 1024, negative
	// none. QueueWait is how long. 0 means 10 s, with Adaptive too;
	// negative none, so that the client's own deadline alone counts.
	Queue     int
	QueueWait time.Duration
	// Streams is how many upgrades and event streams there may be. 0 means 1024.
	Streams int

	// ConnectTimeout bounds dialling and the TLS handshake. 0 means 5 s.
	ConnectTimeout time.Duration
	// IdleConn is how long a connection is kept unused, unless the server says
	// less with Keep-Alive: timeout, from which 1 s is taken off. 0 means 2 s.
	IdleConn time.Duration
	// MaxIdleConns is how many are kept for each server. 0 means 256.
	MaxIdleConns int
	// TLS is for https servers. nil means the system's roots.
	TLS *tls.Config
	// Health configures checks.
	Health Health
	// Retry configures retries; the zero value makes none.
	Retry Retry
}

// Health says how servers are found to be ill. The zero value has no active
// checks; a server that fails 5 calls in a row is left alone for 10 s.
type Health struct {
	// Path is requested from each server, with GET, every Interval, give or take a
	// half. Empty means no active checks. A status from 200 to 399 is healthy.
	Path     string
	Interval time.Duration // 0 means 2 s, at least 10 ms
	Timeout  time.Duration // 0 means 1 s
	// Healthy and Unhealthy are how many answers in a row change the mind.
	// 0 means 2 and 3.
	Healthy, Unhealthy int
	// Failures is how many calls in a row have to fail (no connection, no
	// answer, none in time; a client that goes away says nothing) until a server
	// is left alone for Eject, and after that until one call has probed it. 0
	// means 5 and 10 s; a negative Failures means never. Any answer ends it, and
	// so do Healthy checks of a server that was found ill. If all servers are
	// ill, all are used.
	Failures int
	Eject    time.Duration
}

// Retry says what is tried again (H15). Only requests of which the origin may
// have seen something count as retries; one that never left is sent again
// anyway.
type Retry struct {
	// Attempts is how many calls one request may cause in all, at most 10. 0 and
	// 1 mean no retry.
	Attempts int
	// On are the statuses that are tried again. nil means 502, 503 and 504, and
	// broken connections are always among it.
	On []int
	// Methods that are tried again. nil means GET, HEAD and OPTIONS.
	Methods []string
	// Budget is how many retries there may be for each 100 calls, over 10 s, and
	// at least 3 in that time. 0 means 10.
	Budget int
	// Backoff is the mean wait before the first retry, doubled for each. 0 means
	// 25 ms.
	Backoff time.Duration
}

// MaxPassesBound is the most that Config.MaxPasses can be.
const MaxPassesBound = 100

// A PathMatch says which readings of a request's path a Route's Path is compared
// with.
type PathMatch int

const (
	// MatchSent compares the path as the client sent it.
	MatchSent PathMatch = iota
	// MatchNormalized compares what origins may make of the path too, so that no
	// way to write it evades the route. A reading decodes percent-encoding once. It
	// resolves dot segments or leaves them, takes several slashes as one or leaves
	// them, takes %2F, a backslash and %5C as a slash or leaves them, and drops what
	// follows ";" in a segment or leaves it. A slash at the end never counts, in
	// Path neither.
	MatchNormalized
	// MatchCaseless does that without regard to case.
	MatchCaseless
)

// DefaultHotKeys is Route.HotKeys where that is 0.
const DefaultHotKeys = 100

// A Route says what becomes of the requests that it matches. Of several that
// match, the one that says most wins: first by host (exact before wildcard
// before any, a longer wildcard before a shorter), then by path (exact before
// prefix, longer before shorter), then by method (named before any), then in the
// order given.
//
// Hosts are compared without regard to case, port and a dot at the end. Paths
// are compared as they were sent, escaped, and nothing is cleaned: //api and
// /x/../api are not under /api, and /api/../x is, though an upstream may see
// that otherwise, so a route is no access control. An encoded slash parts no
// segments: /api%2Fx is not under /api. Only what RFC 9110 (section 4.2.3) calls
// the same is the same: /%61pi is /api, and %2f is %2F. So //api, /x/../api,
// /API, /api;x and /x%2F..%2Fapi do not get the limits of /api.
//
// With PathMatch a route also takes requests with such paths. It wins over a route
// that was found for the path as sent, unless that one matches the same reading
// and says more. Of two routes with PathMatch the one for the path as sent loses:
// /a/../b is for /b.
//
// The target that is forwarded, and is part of the cache's key, is the one that the
// client sent, or that Rewrite has made of it.
type Route struct {
	// Name is what it is called in stats and logs, as that of an Upstream. It
	// must be unique.
	Name string
	// Hosts it is for, without ports: "shop.example", "*.example" for any name
	// below. Empty means all.
	Hosts []string
	// Path is the prefix of the path, by whole segments: "/api" matches /api and
	// /api/x, not /apix; "/api/" does not match /api. With "=" before it, the
	// path is exact: "=/health". Empty means "/". It is written escaped.
	Path string
	// PathMatch says whether it is also for other ways to write that path. Zero
	// compares the path as it was sent.
	PathMatch PathMatch
	// Methods it is for, in capitals; GET is without HEAD. Empty means all.
	Methods []string
	// Upstream is the name of an Upstream. With a single one it may be empty.
	Upstream string

	// Cache is what is cached, beside what the origin says.
	Cache weirhttp.Policy
	// NoStore, NoCoalescing, FinishAbandoned, Observe, MaxObject, RefreshAhead:
	// see weirhttp.Options.
	NoStore, NoCoalescing, FinishAbandoned, Observe bool
	MaxObject                                       int64
	RefreshAhead                                    float64
	// Cooling and MaxCooling: see weirhttp.Options.
	Cooling, MaxCooling time.Duration

	// HotKeys is how many of its busiest URLs are known, by traffic and by load
	// time, at most weirhttp.MaxHotKeys. 0 means DefaultHotKeys, negative none.
	HotKeys int

	// Concurrency is a cap for this route, below the upstream's. 0 means none.
	Concurrency int
	// Queue and QueueWait are those of this cap, as in Upstream.
	Queue     int
	QueueWait time.Duration
	// Rate limits each client before anything else; its Key is made from RateBy, its Client
	// from TrustedProxies, its Name from the route's, so these are left empty. nil
	// means no limit.
	Rate *weirhttp.ClientLimiterOptions
	// RateBy says how to tell clients apart: by "address" (the default) or
	// "header:NAME", with the address of clients that do not send it.
	RateBy string
	// Priority is the class of the route's requests in the upstream's queue.
	Priority limit.Priority

	// Timeout bounds the time from the start of a call to the head of its answer;
	// as long as the body of the request moves, it starts anew. 0 means 60 s,
	// negative none. IdleTimeout bounds the time without progress in a body. 0 means
	// 60 s, negative none. StreamIdleTimeout is that of event streams, gRPC and
	// upgrades: 0 means IdleTimeout, negative none.
	Timeout, IdleTimeout, StreamIdleTimeout time.Duration
	// MaxBody bounds a request's body. 0 means no bound; beyond it is 413, in
	// observe mode too.
	MaxBody int64
	// NoFleet leaves the route out of Config.Fleet: its answers and its clients'
	// rates are this gateway's own. Purges reach it all the same.
	NoFleet bool
	// ReceiptKey and NoReceipt: see weirhttp.Options.
	ReceiptKey, NoReceipt bool
	// Rewrite changes the URL, Host or Header of a copy of each request, on the
	// request's goroutine. It comes after Rate, and before the cache's key is made: what
	// is compared, stored, purged, explained and forwarded is the result. What an answer
	// depends on in a field that Rewrite sets must be in Vary or in Cache.Vary. It cannot
	// change anything else, and a result that cannot be forwarded is answered with 500.
	// nil changes nothing.
	Rewrite func(*http.Request)
	// SetRequest and RemoveRequest change the request's fields on the way up,
	// SetResponse and RemoveResponse the answer's on the way down.
	SetRequest, SetResponse       http.Header
	RemoveRequest, RemoveResponse []string
}
