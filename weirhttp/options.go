package weirhttp

import (
	"cmp"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// Options configure a Handler or a Transport. The zero Options are safe: the origin
// decides what is stored and shared, and at most 256 calls run at once.
type Options struct {
	// Name identifies the instance in Cache-Status (RFC 9211), Proxy-Status and
	// Stats. Empty means "weir". It must be a token or a string of printable ASCII.
	Name string
	// Cache stores responses and tracks flights. Handlers for the same URLs share
	// one. nil means a separate Cache of 64 MiB.
	Cache *Cache
	// Fleet shares the Cache with other instances. The zero value does not share it.
	Fleet FleetOptions
	// Policy adds to what the origin says about storing and lifetimes.
	Policy Policy
	// Identity returns what only the program knows of the client of a request: requests
	// with different identities share nothing but what the origin declares to be for all.
	// Set it if a filter in front removes credentials, or if the base of a Transport adds
	// them by the context of a request. Header fields, the address of the connection and
	// the certificate of the client are compared without it. nil means none. It must be
	// fast: it is called for each request.
	Identity func(*http.Request) string
	// Reads declare requests with a body that only read, and may be shared and stored
	// like a GET (H32). The first rule that matches applies. A QUERY is a read without
	// any rule; other methods are not.
	Reads []ReadRule

	// Idempotency makes calls with an Idempotency-Key run at most once. nil means that they
	// run as often as they are requested. It cannot be used with a Transport, and has no
	// effect in observe mode.
	Idempotency *IdempotencyPolicy

	// Events shares event streams. The zero value does not.
	Events EventPolicy

	// Query removes and orders parameters, in the key and in forwarded requests alike.
	Query QueryRules
	// StoredTargets returns the targets (path and query) under which responses to a URL
	// may be stored, all of which a request that changes it invalidates. nil means what
	// Query makes of the URL. Set it if Handlers with other QueryRules share the Cache.
	StoredTargets func(host, target string) []string
	// MaxVariants is how many responses of one URL are stored, for different values of
	// the fields and cookies that select one (Vary, Policy.Vary, Policy.VaryCookies).
	// Beyond it, the one that is used least is evicted. 0 means 32, at most MostVariants.
	// Responses that are for one client each, because of what counts in its request, are
	// bounded by the size of the Cache alone.
	MaxVariants int

	// NoStore stores nothing.
	NoStore bool
	// NoCoalescing starts a call for each miss.
	NoCoalescing bool
	// FinishAbandoned lets a call whose last client has left finish and store its
	// response, instead of canceling it.
	FinishAbandoned bool
	// ReleaseAbandoned gives back the permit of a call as soon as its last client has
	// left. Without it, a forwarder's permit is held until the origin has responded or
	// closed its side of the connection, or, where that cannot be seen (HTTP/2, and the
	// RoundTripper of a Transport), for as long as such calls take, at most HeadTimeout:
	// many origins do not notice when clients leave, and would get more calls at once
	// than Limiter says. Set it for an origin that is known to stop.
	ReleaseAbandoned bool
	// Observe shares, stores and rejects nothing. It counts what would have been
	// shared and rejected, and compares the bodies that would have been shared; see
	// [ObserveStats].
	Observe bool

	// ClientLimiter admits clients, before anything else. nil admits all.
	ClientLimiter *ClientLimiter
	// Limiter admits calls to the next handler. nil means a limit.Concurrency of 256
	// with its default queue. For no limit use limit.All().
	Limiter limit.Limiter
	// Budget admits calls to the next handler by Cost, before Limiter. Its permit is held
	// until the response has ended, for streams too. nil means that cost is counted, and
	// not limited.
	Budget limit.Limiter
	// ClientBudget limits what the calls for each client cost, before Budget. Its
	// rejections are 429. nil means no such limit. It needs a Cost. In observe mode it has
	// no effect.
	ClientBudget *ClientBudget
	// Cost is what a call costs. The zero Cost counts nothing. Hits and requests that are
	// served by another's call cost nothing.
	Cost Cost
	// Streams is the limiter for upgrades and event streams, which last long. nil
	// means a limit.Concurrency of 1024 without a queue.
	Streams limit.Limiter
	// Priority returns the class of a request in Limiter's queue. nil means the
	// priority in the request's context, by default Normal. It sees the fields that
	// Policy ignores, as Tenant does.
	Priority func(*http.Request) limit.Priority
	// Tenant returns the tenant of a request in Limiter's queue, such as TenantByAddress. A
	// call belongs to the request that started it. It is not called for hits. nil means the
	// tenant in the request's context, by default none.
	Tenant func(*http.Request) limit.Tenant

	// MaxObject is the size up to which a body is stored, and kept from its first
	// byte for clients that join. 0 means 8 MiB. It is at most half of the Cache.
	MaxObject int64
	// Window is how much of a larger body is kept while it passes. 0 means 4 MiB. It
	// grows for clients that read slowly, while calls use less than three eighths of the
	// Cache.
	Window int64
	// RefreshAhead is the share of the freshness lifetime, counted from its end, in
	// which a hit starts a refresh in the background. Each response is refreshed at
	// most once, and only after RefreshHits hits. A random share is added for each
	// response: up to a tenth of the lifetime, and at most RefreshAhead. 0 means off;
	// the maximum is MaxRefreshAhead, 0.5.
	RefreshAhead float64
	// RefreshHits is how many hits make a response hot. 0 means 2.
	RefreshHits int
	// Relearn is how long a key is remembered whose responses cannot be shared, or are
	// larger than MaxObject. Until then its requests do not wait for each other. 0 means
	// 10 s.
	Relearn time.Duration

	// Cooling is how long a failed call (no response, or 500, 502, 503 or 504) is
	// remembered for the stored response that it was meant to replace. Until then
	// requests that may use that response stale get it without another call, and it
	// is not refreshed. After that, one of them tries again. Cooling doubles with
	// each failure in a row, up to MaxCooling, and a success ends it. It is at least what
	// Retry-After of a 503 states, up to MaxCooling. A request that
	// may not use a stale response always makes a call. 0 means 1 s for Cooling and
	// 30 s for MaxCooling; a negative Cooling means that no failure is remembered.
	// FleetOptions.Cooling has the same effect on the other instances of a fleet.
	Cooling, MaxCooling time.Duration

	// Deadline is the request field in which clients state for how long they wait, from the
	// arrival of the request to the head of the response (H44). A request whose time is over gets
	// 504, or a stale response where one may be served. The field shortens HeadTimeout for its
	// own request alone, is not compared, and is not forwarded. Values that cannot be read are
	// ignored and counted. The zero value is no field. For gRPC, grpc-timeout is always obeyed.
	Deadline DurationField
	// TellDeadline is the request field in which the next handler's server receives how much time
	// is left for the response. A call that others may join has HeadTimeout, never the deadline of
	// a client. A call for one request has the deadline of its context, or of the request, if it is shorter;
	// its response is then not stored. Streams, and uploads without a deadline, do not have
	// the field. It is removed from the requests of clients. The zero value is no field. For gRPC it
	// is grpc-timeout, with what the client has stated.
	TellDeadline DurationField

	// HeadTimeout bounds the time from the start of a call to its final response
	// headers. It restarts whenever the body of the request makes progress. 0 means
	// 60 s, negative means no bound.
	HeadTimeout time.Duration
	// IdleTimeout bounds the time without progress in a body. 0 means 60 s, negative
	// means no bound.
	IdleTimeout time.Duration
	// StreamIdleTimeout is IdleTimeout for event streams, gRPC and upgrades, which
	// can be silent for a long time. It also bounds the wait for their headers,
	// instead of HeadTimeout. 0 means IdleTimeout, or 10 min for a Transport without
	// an IdleTimeout; negative means no bound.
	StreamIdleTimeout time.Duration

	// Clients bounds how much slow clients can take from others. The zero value is
	// safe.
	Clients ClientLimits

	// Scheme returns the scheme that the client used, "http" or "https". nil means
	// https for requests that came over TLS, else http.
	Scheme func(*http.Request) string
	// ReceiptKey puts the key into Cache-Status. NoReceipt omits Cache-Status.
	ReceiptKey, NoReceipt bool
	// ErrorHandler writes the responses that the Handler generates itself:
	// rejections, and errors for which there is no stale response. It is called on
	// the goroutine of the request, possibly several times concurrently. A Transport
	// returns the error instead. nil means a line of plain text.
	ErrorHandler ErrorHandler
	// Fallback gets the requests that would get an error otherwise. nil means that they get
	// it. A Transport returns the error.
	Fallback *Fallback
	// Gateway means that the next handler forwards requests to another server. If it
	// fails (by a panic, or without a response), the status is 502 instead of 500. A gateway writes
	// X-Forwarded-For, Forwarded, Via and X-Request-Id after requests are compared, so a
	// response that varies by one of them is neither stored nor shared. Other fields that
	// proxies write (see Policy.Overrides) are compared in full, also if only one of two
	// requests has them.
	Gateway bool
	// RequestID is the name of a field with an ID, such as X-Request-Id, for every request
	// that is not a hit: the client's, or else a new one (see [RequestID]). The ID is in the
	// request that the next handler receives, in the response, and in Receipt.RequestID.
	// Requests that share a call keep their IDs. An ID that the origin sends is relayed to
	// the client that led to the call; it is neither stored nor shared. Empty means no IDs.
	RequestID string
	// Route names the Handler in Receipts and for Observers. For Observers, empty
	// means Name.
	Route string
	// HotKeys is how many of the busiest keys Handler.HotKeys can return, by traffic
	// and by load time, at most MaxHotKeys. Each takes a few kilobytes. Only the
	// first kilobyte of a target counts, so that long ones take no more. 0 and
	// negative mean none, at no cost.
	HotKeys int
	// Observer is notified of what happens. nil costs nothing. See [Observers] for several.
	Observer Observer
}

// A Client returns the address of the client that sent a request, for a
// [ClientLimiter].
type Client func(*http.Request) netip.Addr

// Defaults and bounds of Options.
const (
	DefaultConcurrency = 256              // of Options.Limiter: calls at the same time
	DefaultStreams     = 1024             // of Options.Streams: streams at the same time
	DefaultMaxObject   = 8 << 20          // of Options.MaxObject, in bytes
	DefaultWindow      = 4 << 20          // of Options.Window, in bytes
	DefaultRelearn     = 10 * time.Second // of Options.Relearn
	DefaultCooling     = time.Second      // of Options.Cooling
	DefaultMaxCooling  = 30 * time.Second // of Options.MaxCooling
	DefaultTimeout     = 60 * time.Second // of Options.HeadTimeout and IdleTimeout
	DefaultStreamIdle  = 10 * time.Minute // of Options.StreamIdleTimeout of a Transport
	MaxHotKeys         = hotkeys.Max      // Options.HotKeys
	MaxRefreshAhead    = 0.5              // Options.RefreshAhead, as a share of the lifetime
	MostVariants       = 256
)

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError; or nil. New calls it.
func (o Options) Validate() error {
	f := option.Faults{Package: "weirhttp", Prefix: "Options."}
	check := f.Check
	const duration = "0 or more"
	p := o.Policy
	check(printable(o.Name), "Name", o.Name, "printable ASCII")
	check(o.RequestID == "" || rfc9111.IsFieldName(o.RequestID), "RequestID", strconv.Quote(o.RequestID), "the name of a field")
	check(p.TTL >= 0, "Policy.TTL", p.TTL, duration)
	check(!p.Force || p.TTL > 0, "Policy.Force", p.Force, "true only with a TTL")
	check(p.Heuristic >= 0 && p.Heuristic <= 1, "Policy.Heuristic", p.Heuristic, "from 0 to 1")
	check(p.MaxHeuristic >= 0, "Policy.MaxHeuristic", p.MaxHeuristic, duration)
	check(p.StaleWhileRevalidate >= 0, "Policy.StaleWhileRevalidate", p.StaleWhileRevalidate, duration)
	check(p.StaleIfError >= 0, "Policy.StaleIfError", p.StaleIfError, duration)
	check(p.StaleOffline >= 0, "Policy.StaleOffline", p.StaleOffline, duration)
	check(o.MaxObject >= 0, "MaxObject", o.MaxObject, duration)
	check(o.Window >= 0, "Window", o.Window, duration)
	check(o.RefreshAhead >= 0 && o.RefreshAhead <= MaxRefreshAhead, "RefreshAhead", o.RefreshAhead,
		"from 0 to 0.5: a share of the lifetime, counted from its end")
	check(o.RefreshHits >= 0, "RefreshHits", o.RefreshHits, duration)
	check(o.HotKeys <= MaxHotKeys, "HotKeys", o.HotKeys, "at most 10000")
	check(o.Relearn >= 0, "Relearn", o.Relearn, duration)
	check(o.Cooling <= time.Hour, "Cooling", o.Cooling, "at most 1 h")
	check(o.MaxCooling == 0 || o.MaxCooling >= cmp.Or(o.Cooling, DefaultCooling) && o.MaxCooling <= 24*time.Hour,
		"MaxCooling", o.MaxCooling, "from Cooling to 24 h")
	check(o.MaxVariants >= 0 && o.MaxVariants <= MostVariants, "MaxVariants", o.MaxVariants, "from 0 to 256")
	o.Query.check(check)
	o.Deadline.check(check, "Deadline", p)
	o.TellDeadline.check(check, "TellDeadline", p)
	o.checkReads(check)
	o.Idempotency.check(check)
	o.Events.check(check)
	o.Clients.check(check)
	o.Cost.check(check, o.Budget, o.ClientBudget)
	f.Add(limit.Validate("weirhttp", "Options.Limiter", o.Limiter))
	f.Add(limit.Validate("weirhttp", "Options.Budget", o.Budget))
	f.Add(limit.Validate("weirhttp", "Options.Streams", o.Streams))
	check(o.Fallback == nil || o.Fallback.Serve != nil, "Fallback.Serve", "nil", "set")
	f.Filled("Observer", o.Observer)
	f.Add(o.Fleet.Validate())
	return f.Err()
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// withDefaults returns o with all defaults set.
func (o Options) withDefaults() (Options, error) {
	var err error
	o.Name = cmp.Or(o.Name, "weir")
	o.RequestID = http.CanonicalHeaderKey(o.RequestID)
	o.Deadline.Name, o.TellDeadline.Name = http.CanonicalHeaderKey(o.Deadline.Name), http.CanonicalHeaderKey(o.TellDeadline.Name)
	o.Route = cmp.Or(o.Route, o.Name)
	if o.Cache == nil {
		if o.Cache, err = NewCache(DefaultCacheBytes); err != nil {
			return o, err
		}
	}
	if o.Limiter == nil {
		if o.Limiter, err = limit.NewConcurrency(limit.ConcurrencyOptions{Name: o.Name, Limit: DefaultConcurrency}); err != nil {
			return o, err
		}
	}
	if o.Streams == nil {
		if o.Streams, err = limit.NewConcurrency(limit.ConcurrencyOptions{Name: "streams", Limit: DefaultStreams, Queue: -1}); err != nil {
			return o, err
		}
	}
	o.MaxObject = min(cmp.Or(o.MaxObject, DefaultMaxObject), o.Cache.bytes/2)
	o.Window = cmp.Or(o.Window, DefaultWindow)
	o.RefreshHits = cmp.Or(o.RefreshHits, 2)
	o.Relearn = cmp.Or(o.Relearn, DefaultRelearn)
	o.Cooling = cmp.Or(o.Cooling, DefaultCooling)
	o.MaxCooling = cmp.Or(o.MaxCooling, max(DefaultMaxCooling, o.Cooling))
	o.HeadTimeout = cmp.Or(o.HeadTimeout, DefaultTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultTimeout)
	o.StreamIdleTimeout = cmp.Or(o.StreamIdleTimeout, o.IdleTimeout)
	o.Clients = o.Clients.withDefaults()
	return o, nil
}
