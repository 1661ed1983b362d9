package gateway

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Config configures a Gateway. It is not modified. Zero values mean the
// documented defaults.
type Config struct {
	// Upstreams are the pools of servers behind the Gateway. At least one is required.
	Upstreams []Upstream
	// The most specific matching route handles a request: see [Route]. A
	// request that none matches gets 404.
	Routes []Route
	// Cache is shared by all routes. nil means one with 64 MiB.
	Cache *weirhttp.Cache
	// Claims has the Idempotency-Keys of routes with Idempotency, which need it. It cannot
	// change: Update must be given the same, or nil. Close it after the Gateway.
	Claims *once.Claims
	// Fleet lets several gateways share their state. nil means that this one works alone.
	Fleet *Fleet
	// TrustedProxies are the networks whose X-Forwarded-For, -Proto and -Host are trusted
	// and forwarded. These, Forwarded and all other X-Forwarded-* are removed from requests
	// of other peers before anything else sees them. nil trusts none.
	TrustedProxies []netip.Prefix
	// Name identifies this Gateway in Via, Cache-Status and Proxy-Status. It has the form
	// of Upstream.Name. Empty means "weir".
	Name string
	// MaxPasses is how often a request may pass through this Gateway: an origin may send it
	// back on purpose. A request that exceeds it gets 508 (RFC 5842) before any other
	// processing. 0 means 1, at most MaxPassesBound.
	//
	// Each New makes a random name, which the Gateway adds to CDN-Loop (RFC 8586) in the
	// requests it forwards. It keeps the names of other gateways.
	MaxPasses int
	// MaxDrain is how much of an unread request body the Gateway reads and discards to keep
	// the client's connection open. 0 means 256 KiB.
	MaxDrain int64
	// KeepUnderscores forwards the fields and trailers of requests whose names have an
	// underscore. By default they are removed: servers that receive fields as variables (RFC
	// 3875, section 4.1.18) cannot tell X_User from X-User, so a client could pass one
	// past a proxy that removes or sets the other. Route.SetRequest can still set such fields.
	KeepUnderscores bool
	// Clients limits what slow clients can take from others. ReadAheadMemory covers all
	// routes together; BlockedShare applies to each upstream and to each route's own cap.
	// The zero value is safe.
	Clients weirhttp.ClientLimits
	// Observer receives events. nil costs nothing.
	Observer weirhttp.Observer
	// ServerChanged is called after a server was ejected or readmitted, or has begun or ceased
	// to fail its health checks, and after the lookups of a name have begun or ceased to fail, or have
	// found other addresses. It must return soon, and be safe for concurrent use. nil
	// costs nothing.
	ServerChanged func(ServerChange)
	// LimitChanged is called after the limit of an upstream or a route was lowered because
	// most calls end after their clients have left (B9), and when that is over. It must
	// not call the Gateway. nil means none.
	LimitChanged func(limit.Storm)
	// ErrorHandler writes the responses that the Gateway and its routes generate:
	// rejections, requests without a route, and errors when no stale response can be
	// served. nil means a line of plain text. See weirhttp.Options.
	ErrorHandler weirhttp.ErrorHandler
	// Front returns a handler that answers requests of a route instead of the route, or nil
	// to use the route itself. That handler reaches the route with ServeRoute. Front is
	// called for each request that the route's Rate has admitted, except in observe mode,
	// and must not block. A nil Front puts nothing in front of routes.
	Front func(route string) http.Handler
}

// Fleet configures what several gateways share: cached responses, calls in flight, purges,
// and the rates of clients. Only RateFailure and Instances can change before Close.
type Fleet struct {
	// Config sets what is shared and for how long. Its Tier is required. If the Tier counts
	// permits (fleet.Abilities), Route.Rate applies to all gateways together.
	fleet.Config
	// MaxObject is the maximum size of a body in the Tier, in bytes, as
	// weirhttp.FleetOptions.MaxObject. 0 means 256 KiB, at most 64 MiB.
	MaxObject int64
	// RateFailure sets how Route.Rate, and budgets of the fleet, work while the Tier is
	// unavailable. It is required if a route in the fleet has a Rate, or a budget is the
	// fleet's.
	RateFailure quota.FailureMode
	// Instances is the maximum number of gateways, for quota.FailLocalShare.
	Instances int
	// Logger: see weirhttp.FleetOptions.
	Logger *slog.Logger
}

// options returns f's options for the cache.
func (f *Fleet) options() weirhttp.FleetOptions {
	if f == nil {
		return weirhttp.FleetOptions{}
	}
	return weirhttp.FleetOptions{Config: f.Config, MaxObject: f.MaxObject, Logger: f.Logger}
}

// An Upstream is a pool of equivalent servers.
type Upstream struct {
	// Name is how routes refer to the Upstream: 1 to 64 letters, digits, ".", "_" and "-",
	// the first a letter. It must be unique.
	Name string
	// Servers are base URLs without a path: http://host:port, https://…, h2c://… for HTTP/2
	// without TLS, or unix:/run/app.sock for HTTP/1.1 over the socket with this absolute path.
	// If a host is a name, each new connection tries the name's addresses one after another, in
	// both families, without waiting for one that hangs (RFC 8305).
	Servers []string
	// ServerSettings are the settings of single servers, by their index in Servers. It may be
	// shorter than Servers; the others have the zero value.
	ServerSettings []ServerSettings
	// SlowStart is the time in which a new or recovered server reaches its share of the calls
	// (H36). It begins with one call in flight. 0 means 10 s, negative no such time. A pool
	// that is new as a whole has none.
	SlowStart time.Duration
	// Affinity keeps requests with the same key at the same server. nil means no keys.
	Affinity *Affinity
	// Sticky sends a client with a session to the server that has begun it. nil means no
	// sessions.
	Sticky *Sticky
	// Failures are the statuses that count as failures of a server, along with calls without
	// a response, and the gRPC statuses INTERNAL and UNAVAILABLE. nil means 500, 502, 503 and
	// 504. A server that fails where the others, on the same route, do not, is penalized: it
	// gets no calls for 5 s, doubled by each relapse within 10 min up to 5 min, and then one
	// at a time until three in a row are no failures. The last usable server is never
	// penalized. Statuses of other classes count as well where the others do not send them.
	Failures []int

	// Host is the Host of the requests to the servers: PreserveHost, ServerHost, or a host,
	// perhaps with a port. Empty means PreserveHost. Such a host is also the name sent to
	// https servers (SNI), which their certificates must match, unless TLS has a
	// ServerName. Otherwise that name is the host in the server's URL.
	//
	// Host and BasePath, and Route.StripPrefix, apply after the cache key is computed. They
	// depend on nothing but the configuration and the path, so requests with the same key
	// give the same upstream request (H9). Location and other fields of responses are not
	// rewritten; the servers get X-Forwarded-Host, -Proto and -Prefix.
	Host string
	// BasePath is put in front of the path of each request, of health checks too: "/v1". It
	// is written escaped, without a slash at its end. Requests whose path has a segment
	// "..", however it is spelled, get 400, so that no client leaves the BasePath.
	BasePath string

	// Concurrency is how many calls run at once, over all servers. 0 means 256, negative
	// means no cap. With Adaptive it is the maximum.
	Concurrency int
	// Adaptive adjusts the number to the latency (limit.Adaptive).
	Adaptive bool
	// Queue is how many requests may wait for a call. 0 means the default of package limit,
	// negative none. QueueWait is how long they may wait. 0 means 10 s, with Adaptive too;
	// negative means that only the client's own deadline counts.
	Queue     int
	QueueWait time.Duration
	// OverloadAfter is how long the oldest of them may wait before the newest are served
	// first. 0 means no such bound: they are only while waiting does not end in time, see
	// limit.Concurrency. Negative means never.
	OverloadAfter time.Duration
	// MinConcurrency is how low the limit may fall, for its routes as well, while
	// most calls end after their clients have left (B9). 0 means that it never falls, and so
	// does Concurrency or more. Clients that leave on purpose can make it fall. Not together with Adaptive.
	MinConcurrency int
	// MaxRetryAfter bounds the Retry-After of the requests that these limits reject (H46):
	// it is uniform between the expected wait and twice that. 0 means 10 s, at most 1 h.
	MaxRetryAfter time.Duration
	// Fair says whose requests share the calls fairly while requests wait.
	Fair Fair
	// ReleaseAbandoned: see weirhttp.Options.
	ReleaseAbandoned bool
	// Streams is the maximum number of upgrades and event streams. 0 means 1024.
	Streams int
	// Cost is what calls cost, and Budget limits what they cost together. nil means no
	// Budget; it needs a Cost here, or in each route.
	Cost   weirhttp.Cost
	Budget *Budget
	// MaxPause makes calls wait as the servers' responses state (Retry-After of a 429 or
	// 503, RateLimit and similar fields, see weirhttp.StatedLimits), but not longer than
	// this after the response. They wait up to QueueWait. It suits an upstream whose
	// servers have one limit together. 0 means that nothing is obeyed, at most 1 h.
	MaxPause time.Duration

	// TellDeadline is the request field in which the servers receive how much time is left for
	// the response: see weirhttp.Options. nil means none. gRPC has grpc-timeout.
	TellDeadline *weirhttp.DurationField
	// ConnectTimeout bounds dialling and the TLS handshake. 0 means 5 s.
	ConnectTimeout time.Duration
	// IdleConn is how long an idle connection is kept. If the server sends a shorter
	// Keep-Alive timeout, that timeout minus 1 s is used. 0 means 2 s.
	IdleConn time.Duration
	// MaxIdleConns is how many idle connections are kept for each server. 0 means 256.
	MaxIdleConns int
	// MaxConnAge is how long a connection is used for new calls, less up to a quarter of it, so
	// that a name that has moved is followed (H37). It ends no call. 0 means 5 min, negative no
	// such bound.
	MaxConnAge time.Duration
	// Resolver looks up the hosts of Servers. nil means net.DefaultResolver. It counts as
	// unchanged in an Update if the pointer is the same.
	Resolver *net.Resolver
	// TLS configures connections to https servers. nil means the system's roots.
	TLS *tls.Config
	// Health sets when a server counts as unhealthy: by active checks, of which the zero
	// value makes none, and by failed calls in a row.
	Health Health
	// Retry configures retries; the zero value makes none.
	Retry Retry
}

// ServerSettings are the settings of one server. The zero value is safe.
type ServerSettings struct {
	// Weight is the server's share of the calls in relation to the others (H38), at most
	// 1000. 0 means 1; negative drains the server, which then gets no new calls.
	Weight int
	// MaxInFlight is the maximum number of calls in flight, without event streams and
	// upgrades. Calls wait while all servers have as many. 0 means no maximum.
	MaxInFlight int
	// Resolve makes each address of the server's host a server, with its own health, times and
	// statistics, and these settings (H37). The host is looked up this often, in the background
	// and for at most 5 s; at most 64 addresses are used. An address that three answers in a row do
	// not have any more, or one if it also fails, gets no new calls. A failed lookup changes
	// nothing. Before the first one that succeeds, requests get 503, and wait for the first one to
	// end. Of a host with IPv4 and IPv6 addresses, one family is used: the first that connects, IPv6
	// first. The period is from 10 ms to 1 h. 0 makes no lookups, and the host is one server.
	Resolve time.Duration
}

// Health configures how unhealthy servers are detected. The zero value makes no active
// checks; a server that fails 5 calls in a row is ejected for 10 s.
type Health struct {
	// Path is requested from each server, with GET, every Interval, with a jitter of up to
	// half of it. Empty means no active checks. A status from 200 to 399 is healthy.
	Path     string
	Interval time.Duration // 0 means 2 s, at least 10 ms
	Timeout  time.Duration // 0 means 1 s
	// Healthy and Unhealthy are how many equal results in a row change a server's state.
	// 0 means 2 and 3.
	Healthy, Unhealthy int
	// Failures is how many calls in a row must fail (no connection, no response, or none in
	// time; a client that disconnects does not count) before a server is ejected for Eject,
	// and after that until one call has probed it. 0 means 5 and 10 s; a negative Failures
	// means never. Any response ends the ejection, and so do Healthy successful checks of
	// an unhealthy server. If all servers are unhealthy, all are used.
	Failures int
	Eject    time.Duration
}

// Retry configures retries (H15). Only requests that may have reached the origin count as
// retries; a request that was never sent is always sent again.
type Retry struct {
	// Attempts is the maximum number of calls for one request, at most 10. 0 and
	// 1 mean no retry.
	Attempts int
	// On lists the statuses that are retried. nil means 502, 503 and 504. Broken
	// connections are always retried.
	On []int
	// Methods lists the methods that are retried. nil means GET, HEAD and OPTIONS. A request
	// with a body is never retried.
	Methods []string
	// Budget is how many retries are allowed per 100 calls within 10 s; 3 are always
	// allowed in that time. 0 means 10.
	Budget int
	// Backoff is the mean wait before the first retry, doubled for each. 0 means
	// 25 ms.
	Backoff time.Duration
}

// Values of Upstream.Host that are not hosts.
const (
	// PreserveHost keeps the Host that the client sent.
	PreserveHost = "preserve"
	// ServerHost sends the host and port in the URL of each server.
	ServerHost = "server"
)

// MaxPassesBound is the maximum of Config.MaxPasses.
const MaxPassesBound = 100

// A PathMatch selects the readings of a request's path that are compared with a Route's
// Path.
type PathMatch int

const (
	// MatchSent compares the path as the client sent it.
	MatchSent PathMatch = iota
	// MatchNormalized also compares the ways in which origins may interpret the path, so
	// that no spelling of it evades the route. Each reading decodes percent-encoding once
	// or twice. It may or may not resolve dot segments, merge repeated slashes, treat %2F, a
	// backslash and %5C as a slash, drop everything after ";" or %3B in a segment, drop dots
	// and spaces at the end of a segment, and end the path at %00, an encoded line break,
	// %3F or %23. A trailing slash never counts, in Path neither. An extension such as .json
	// does: add a route for it.
	MatchNormalized
	// MatchCaseless is MatchNormalized without regard to case.
	MatchCaseless
)

// DefaultHotKeys is the default of Route.HotKeys.
const DefaultHotKeys = 100

// A Route sets how the requests that it matches are handled. If several match, the most
// specific one wins: first by host (exact before wildcard before any, a longer wildcard
// before a shorter), then by path (exact before prefix, longer before shorter), then by
// method (named before any), then in the order given.
//
// Hosts are compared without regard to case, port and a dot at the end. Paths are compared
// as they were sent, escaped and without cleaning: //api and /x/../api are not under /api,
// and /api/../x is. An upstream may see that differently, so a route is not an access
// control. An encoded slash does not separate segments: /api%2Fx is not under /api. Only
// paths that RFC 9110 (section 4.2.3) calls equivalent are equal: /%61pi is /api, and %2f
// is %2F. So //api, /x/../api, /API, /api;x and /x%2F..%2Fapi do not get the limits of
// /api.
//
// With PathMatch a route also matches such paths. It wins over a route that matches the
// path as sent, unless that route matches the same reading and is more specific. Of two
// routes with PathMatch, the one that matches only the path as sent loses: /a/../b is
// handled by /b.
//
// The forwarded target, which is also part of the cache key, is the one that the client
// sent or that Rewrite made of it.
type Route struct {
	// Name identifies the route in stats and logs. It has the form of Upstream.Name and
	// must be unique.
	Name string
	// Hosts lists the hosts that match, without ports: "shop.example", or "*.example" for
	// any name below it. Empty means all.
	Hosts []string
	// Path is a prefix of whole path segments: "/api" matches /api and
	// /api/x, not /apix; "/api/" does not match /api. With "=" before it, the
	// path is exact: "=/health". Empty means "/". It is written escaped.
	Path string
	// PathMatch sets whether other spellings of that path match too. Zero compares the path
	// as it was sent.
	PathMatch PathMatch
	// Methods lists the methods that match, in capitals; GET does not include HEAD. Empty
	// means all.
	Methods []string
	// Upstream is the name of an Upstream. It may be empty if there is only one.
	Upstream string
	// Fallback sends requests to another upstream while this one does not respond to them. nil
	// means that they get an error.
	Fallback *Fallback
	// Failures replaces the upstream's Failures for this route, unless it is nil.
	Failures []int

	// StripPrefix is removed from the path of forwarded requests, by whole segments: with
	// "/api", /api/x becomes /x, and /api becomes /. It must be Path or a parent of it, and
	// is written escaped. Spellings of the path that do not begin with it, which PathMatch
	// may admit, get 400, and so do paths with a segment "..". MatchCaseless compares it
	// without regard to case. The servers get it in X-Forwarded-Prefix. Empty removes
	// nothing; a Route with Rewrite has none.
	StripPrefix string

	// Reads declares requests with a body that only read; see weirhttp.ReadRule.
	Reads []weirhttp.ReadRule
	// Idempotency makes calls with an Idempotency-Key run at most once. nil means that they
	// run as often as they are requested.
	Idempotency *Idempotency
	// Hedge repeats calls that take longer than most at another server. nil means never.
	Hedge *Hedge
	// Cache configures caching beyond what the origin's response fields ask for. Its Vary
	// cannot have X-Forwarded-For, Forwarded, Via and X-Request-Id, which the Gateway writes
	// itself; in the origin's Vary they count as a star.
	Cache weirhttp.Policy
	// Events shares event streams. The zero value does not: see weirhttp.EventPolicy.
	Events weirhttp.EventPolicy
	// Query removes and orders parameters of the query, in the key and in the forwarded
	// request alike: see weirhttp.QueryRules. It applies to all methods, after Rewrite.
	Query weirhttp.QueryRules
	// Coalesce says which requests share a call in flight.
	Coalesce Coalesce
	// MaxVariants, NoStore, FinishAbandoned, Observe, MaxObject, RefreshAhead: see
	// weirhttp.Options.
	MaxVariants                       int
	NoStore, FinishAbandoned, Observe bool
	MaxObject                         int64
	RefreshAhead                      float64
	// Cooling is how long a failed call is remembered for the stored response that it was to
	// replace, as weirhttp.Options.Cooling; it doubles up to MaxCooling. 0 means 1 s and
	// 30 s; a negative Cooling means that no failure is remembered.
	Cooling, MaxCooling time.Duration

	// HotKeys is how many URLs are tracked in each of two lists: the URLs with the most
	// traffic, and those with the most load time. It is at most weirhttp.MaxHotKeys. 0 means DefaultHotKeys; negative means none.
	HotKeys int

	// Concurrency is a cap for this route, below the upstream's. 0 means none.
	Concurrency int
	// Queue, QueueWait and OverloadAfter apply to this cap, as in Upstream.
	Queue         int
	QueueWait     time.Duration
	OverloadAfter time.Duration
	// Cost replaces the upstream's Cost, unless it is zero. Budget limits what the calls of
	// this route cost together, in addition to the upstream's. nil means no Budget.
	Cost   weirhttp.Cost
	Budget *Budget
	// ClientBudget limits what the calls for each client cost, before these. nil means no
	// limit.
	ClientBudget *ClientBudget
	// Rate limits each client before anything else; leave its Key, Client and Name empty:
	// the Gateway sets them from RateBy, TrustedProxies and the route's Name. nil means no
	// limit.
	Rate *weirhttp.ClientLimiterOptions
	// RateBy sets how clients are distinguished: "address" (the default) or "header:NAME",
	// which falls back to the address for clients that do not send the field, or more than
	// one line of it.
	RateBy string
	// Priority is the class of the route's requests in the upstream's queue.
	Priority limit.Priority

	// Timeout limits the time from the start of a call to its response header; it restarts
	// as long as the request body makes progress. 0 means 60 s, negative none. IdleTimeout
	// limits the time without progress in a body. 0 means 60 s, negative none.
	// StreamIdleTimeout is the same limit for event streams, gRPC and upgrades: 0 means
	// IdleTimeout, negative none.
	Timeout, IdleTimeout, StreamIdleTimeout time.Duration
	// Deadline is the request field in which clients state for how long they wait, see
	// weirhttp.Options. It can only shorten Timeout, for its own request. nil means none; for
	// gRPC, grpc-timeout is always obeyed.
	Deadline *weirhttp.DurationField
	// MaxBody limits the size of a request body. 0 means no limit. A longer body gets 413,
	// in observe mode too.
	MaxBody int64
	// NoFleet leaves the route out of Config.Fleet: its responses and its clients' rates
	// stay local to this gateway. Purges still reach it.
	NoFleet bool
	// ReceiptKey and NoReceipt: see weirhttp.Options.
	ReceiptKey, NoReceipt bool
	// Rewrite changes the URL, Host or Header of a copy of each request, on the
	// request's goroutine. It runs after Rate and before the cache key is computed: the
	// rewritten request is what is compared, stored, purged, explained and forwarded. If
	// responses depend on a field that Rewrite sets, the field must be in Vary or in
	// Cache.Vary. Rewrite cannot change anything else, and a result that cannot be
	// forwarded gets 500. nil changes nothing.
	Rewrite func(*http.Request)
	// SetRequest and RemoveRequest change the fields of forwarded requests, SetResponse and
	// RemoveResponse those of responses. A client's field that has "_" instead of "-" in a
	// name that is set or removed is removed as well: origins that receive fields as
	// variables cannot tell the two apart.
	SetRequest, SetResponse       http.Header
	RemoveRequest, RemoveResponse []string
}

// A Fair says between whom an upstream's calls are shared fairly (limit.Tenant), in the
// upstream's queue and in those of its routes. A higher Route.Priority goes first, whosever
// the requests are.
type Fair uint8

const (
	// FairClient: between clients, by address, and IPv6 clients by their /64. Those of a /48
	// have the share of one client. Behind TrustedProxies it is the address that they report.
	FairClient Fair = iota
	// FairNone: first come, first served.
	FairNone
)

// A Coalesce says which requests share a call in flight.
type Coalesce uint8

const (
	// CoalesceProven: those for which the response is known to be (H2).
	CoalesceProven Coalesce = iota
	// CoalesceAnyClient: those, whatever the addresses of their clients, because no
	// response depends on them. It makes a difference without a stated lifetime.
	CoalesceAnyClient
	// CoalesceNone: none.
	CoalesceNone
)
