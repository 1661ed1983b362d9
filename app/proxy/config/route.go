package config

import "github.com/weir-go/weir/weirhttp"

// Route configures how the requests that it matches are handled.
type Route struct {
	Name     string    `yaml:"name" required:"true" form:"name" gw:"Name" help:"Name in statistics, logs and RateLimit fields. It must be unique."`
	Hosts    []string  `yaml:"hosts,omitempty" form:"pattern" gw:"Hosts" help:"Hosts that match, without ports: shop.example, or *.example for any name below it. None means all."`
	Path     string    `yaml:"path" default:"/" form:"prefix" gw:"Path" help:"Path prefix that matches, by whole segments: /api matches /api and /api/x, but not /apix. With = in front the path must be equal: =/health."`
	Match    string    `yaml:"path_match" default:"sent" enum:"sent,normalized,caseless" gw:"PathMatch" help:"Which paths path is compared with. sent: as the client sent it, so that //limited, /x/../limited, /LIMITED and /limited;x miss a route for /limited and its limits. normalized: also what the origin may make of it, with or without dot segments, doubled slashes, encoded slashes, backslashes, ;parameters (also as %3B), dots and spaces at the end of a segment, a slash at the end, a second decoding, and what follows %00, %0A, %0D, %3F or %23. /limited.json is another path. caseless: likewise, without regard to case. Requests are forwarded and stored with the path as sent."`
	Methods  []string  `yaml:"methods,omitempty" form:"method" gw:"Methods" help:"Methods that match. None means all."`
	Upstream string    `yaml:"upstream,omitempty" form:"name" gw:"Upstream" help:"Name of an upstream. Optional if there is only one."`
	Fallback *Fallback `yaml:"fallback,omitempty" gw:"Fallback" help:"Another upstream that gets requests to which this one does not respond. A stale response within its window comes first. Without it, they get an error."`
	Failures []int     `yaml:"failures,omitempty" min:"400" max:"599" least:"1" gw:"Failures" help:"Statuses that count as failures of a server on this route, instead of the upstream's. A route whose 500 is a normal response leaves it out."`

	Hedge *Hedge `yaml:"hedge,omitempty" gw:"Hedge" help:"Sends a call that takes longer than most to a second server, and uses the first response that is no failure. It applies to GET, HEAD, QUERY and reads of an upstream with several servers, and not where calls have a cost."`

	Strip string `yaml:"strip_prefix,omitempty" form:"base" gw:"StripPrefix" help:"Prefix that is removed from the path of forwarded requests, by whole segments: with /api, /api/x becomes /x. It must be path or a parent of it. It is not removed from the cache key. X-Forwarded-Prefix names it. Other spellings of it, which path_match may admit, and paths with a segment .. get 400."`

	Query   Query  `yaml:"query" gw:"Query" help:"Which parameters of the query count. The rules apply to the cache key and to the forwarded request, of every method; what remains keeps its spelling."`
	Reads   []Read `yaml:"reads,omitempty" gw:"Reads" help:"Requests with a body that only read, and are stored and shared like a GET. The first rule that matches applies. QUERY is a read without a rule."`
	Cache   Cache  `yaml:"cache" help:"What is stored, in addition to what the origin allows."`
	Share   Choice `yaml:"coalesce" default:"true" enum:"true,any_client,false" gw:"Coalesce" help:"Lets requests wait for a call in flight and share its response if they may. any_client: also if the addresses of their clients differ and no lifetime is stated, because no response depends on them."`
	Events  Events `yaml:"events" help:"Sharing of event streams (text/event-stream)."`
	Finish  bool   `yaml:"finish_abandoned" default:"false" gw:"FinishAbandoned" help:"Lets a call whose last client has left finish and be stored, instead of canceling it."`
	Fleet   bool   `yaml:"fleet" default:"true" gw:"!NoFleet" help:"Whether the route takes part in the fleet. With false, its responses and client rates belong to each proxy separately."`
	HotKeys int    `yaml:"hot_keys" default:"100" min:"0" max:"1000" gw:"HotKeys" help:"Number of the route's busiest URLs that the console shows, by traffic and by load time. 0 disables it."`
	Observe bool   `yaml:"observe" default:"false" gw:"Observe" help:"Observe mode for this route: nothing is shared, stored or rejected; weir counts what would have been."`

	Concurrency Count         `yaml:"concurrency" default:"none" min:"1" max:"1000000" none:"0" gw:"Concurrency" help:"Limit on concurrent calls of this route, in addition to the upstream's."`
	Queue       Count         `yaml:"queue,omitempty" min:"1" max:"1000000" none:"-1" gw:"Queue" help:"Requests that may wait for this route's concurrency. By default as many as are served within queue_wait, at most 16384, and 4096 while no call has ended."`
	QueueWait   Duration      `yaml:"queue_wait" default:"10s" min:"1ms" max:"1h" gw:"QueueWait" help:"Maximum time they wait."`
	Overload    Duration      `yaml:"overload_after,omitempty" min:"1ms" max:"1h" none:"-1" gw:"OverloadAfter" help:"How long the oldest request may wait before the newest are served first. Without it they are only while waiting does not end in time: after queue_wait, after the deadline, or when clients leave. With none, they never are."`
	Cost        Cost          `yaml:"cost" gw:"Cost" help:"Replaces the upstream's cost, if something is set."`
	Budget      *Budget       `yaml:"budget,omitempty" gw:"Budget" help:"Limit on what the route's calls cost together, in addition to the upstream's budget."`
	Client      *ClientBudget `yaml:"client_budget,omitempty" gw:"ClientBudget" help:"Limit on what the calls for each client cost, before these. The client whose request starts a call pays; hits, shared calls and refreshes cost clients nothing."`
	Rate        *Rate         `yaml:"rate,omitempty" gw:"Rate" help:"Limit on the requests of each client, applied before anything else. Without it there is none."`
	Priority    string        `yaml:"priority" default:"normal" enum:"background,low,normal,high" gw:"Priority" help:"Priority class of the route's requests in the upstream's queue."`

	Timeout     Duration `yaml:"timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"Timeout" help:"Limit on the time from the start of the call, after the queue, to the response headers. It does not expire while the request's body is still moving. Then 504."`
	IdleTimeout Duration `yaml:"idle_timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"IdleTimeout" help:"Limit on the time without progress in a body, in either direction."`
	StreamIdle  Duration `yaml:"stream_idle_timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"StreamIdleTimeout" help:"Replaces idle_timeout for event streams, gRPC and upgrades, which may be silent for long; also their limit on the time to the response headers. If only idle_timeout is set, it applies to them too."`
	MaxBody     Size     `yaml:"max_body" default:"none" min:"1B" max:"1TiB" none:"0" gw:"MaxBody" help:"Limit on the size of a request's body. Larger ones get 413."`

	Deadline *DurationField `yaml:"deadline,omitempty" gw:"Deadline" help:"Request field in which clients state for how long they wait for the response to begin, such as X-Request-Timeout. It can only shorten timeout, and only for the request itself: calls that others may join go on. Then 504, or a stale response. The field is not part of the cache key, and is not forwarded. Without this setting only grpc-timeout is obeyed, for gRPC."`

	Idempotency *RouteIdempotency `yaml:"idempotency,omitempty" gw:"Idempotency" help:"Runs calls with an Idempotency-Key at most once: the response is kept, and requests that repeat it get that response, or wait for it. It applies to methods that are not safe, without reads. Needs the section idempotency."`

	Async *Async `yaml:"async,omitempty" help:"Turns slow requests into jobs, under the section jobs: they get 202 and run later."`

	Receipt    bool        `yaml:"receipt" default:"true" gw:"!NoReceipt" help:"Sends Cache-Status (RFC 9211), which reports how a request was answered."`
	ReceiptKey bool        `yaml:"receipt_key" default:"false" gw:"ReceiptKey" help:"Adds the cache key to Cache-Status."`
	Request    SetRequest  `yaml:"request" help:"Changes to request fields before the request is forwarded."`
	Response   SetResponse `yaml:"response" help:"Changes to response fields before the response is sent."`
}

// Hedge makes a second call, to another server, for a request whose call takes longer than most.
type Hedge struct {
	Budget int      `yaml:"budget" default:"2" min:"1" max:"10" gw:"Budget" help:"Second calls per 100 calls, and seconds that they take per 100s of calls. Each client has its share. None are sent while requests wait, for 10s after a limit was lowered, and while half of the servers get no calls."`
	After  Duration `yaml:"after,omitempty" min:"2ms" max:"1h" gw:"After" help:"How long a call has no response before there is a second one. Without it, the time that as many calls exceed as the budget pays for: with budget: 2, 98 of 100 calls of about the same length take less."`
}

// Fallback is another upstream for requests to which a route's own does not respond.
type Fallback struct {
	Upstream string   `yaml:"upstream" required:"true" form:"name" gw:"Upstream" help:"Name of the other upstream. Its limits, health checks, host and base_path apply. Its own routes and their fallbacks do not: it is one step."`
	When     []Choice `yaml:"when" required:"true" least:"1" enum:"down,full,502,503,504" gw:"When" help:"When a request goes there. down: each server of the upstream is unreachable, ejected or fails its checks. full: the upstream's limits reject the request of a client within its share. 502, 503, 504: the request would end with this status; only for methods in retry.methods, without a body, and within retry.budget. A request is sent at most three times, to both upstreams together."`
	Store    bool     `yaml:"store" default:"false" gw:"Store" help:"Stores and shares responses of the other upstream under the same rules. Without it, they are neither stored nor shared."`
}

// DurationField is a request field with a duration.
type DurationField struct {
	Header string `yaml:"header" required:"true" form:"field" gw:"Name" help:"Name of the field."`
	Unit   string `yaml:"unit" required:"true" enum:"s,ms,us,grpc" gw:"Unit" help:"Unit of its number: seconds, milliseconds or microseconds. grpc: the form of grpc-timeout, such as 500m or 2S."`
}

var durationUnits = map[string]weirhttp.DurationUnit{
	"s": weirhttp.Seconds, "ms": weirhttp.Milliseconds, "us": weirhttp.Microseconds, "grpc": weirhttp.GRPC,
}

// Query selects and orders the parameters of a query.
type Query struct {
	Keep []string `yaml:"keep,omitempty" form:"param" gw:"Keep" help:"Parameters that remain, by name, or by the beginning of the name: page*. None keeps all. At most 100 names."`
	Drop []string `yaml:"drop,omitempty" form:"param" gw:"Drop" help:"Parameters that are removed, also of those in keep: utm_*, gclid. At most 100 names."`
	Sort bool     `yaml:"sort" default:"false" gw:"Sort" help:"Orders parameters by name. Those whose names some servers treat as equal (a, A, a[]) stay in the client's order. A query with a semicolon, or with more than 1000 parameters, is not sorted."`
}

// Read declares requests with a body that only read.
type Read struct {
	Methods     []string `yaml:"methods" default:"POST" least:"1" form:"readmethod" gw:"Methods" help:"Methods that match. HEAD, OPTIONS, TRACE, PUT, PATCH and DELETE are not allowed."`
	Types       []string `yaml:"types,omitempty" form:"media" gw:"Types" help:"Media types that match, without parameters. Required unless QUERY is the only method; for QUERY none means all."`
	Compare     string   `yaml:"compare" default:"bytes" enum:"bytes,json" gw:"Compare" help:"When two bodies are the same. bytes: if they have the same bytes. json: if they have the same canonical form (RFC 8785), so that white space, the order of members, escapes and the form of numbers do not count; a body that programs may read differently, such as one with duplicate names, is compared by bytes."`
	Ignore      []string `yaml:"ignore,omitempty" form:"pointer" gw:"Ignore" help:"JSON fields in which bodies may differ and still be the same: the response to one is served for the other. They are forwarded nevertheless. List only fields that do not change the response. Needs compare: json."`
	OnlyIf      []string `yaml:"only_if,omitempty" form:"condition" gw:"Only" help:"Conditions for sharing, all of which must hold: a JSON field, =, and the values for which it holds, separated by or; absent stands for a body without the field. A read for which one does not hold is forwarded alone. Needs compare: json."`
	GraphQL     bool     `yaml:"graphql" default:"false" gw:"GraphQL" help:"A body is a GraphQL request, and a read only if its document has queries alone. A request with a mutation or a subscription invalidates what is stored for its URL, as without a rule. Needs compare: json."`
	ErrorFields []string `yaml:"error_fields,omitempty" empty:"counts" form:"pointer" gw:"ErrorFields" help:"JSON fields of a response that report an error, unless they are null, false or empty. Requests that wait share such a response, and it is not stored; nor is one in JSON in which the fields cannot be seen. With graphql the default is /errors; [] means none."`
	MaxBody     Size     `yaml:"max_body" default:"64KiB" min:"1B" max:"16MiB" gw:"MaxBody" help:"Size up to which a body is read and compared. A larger one is forwarded as it arrives, and not shared. Bodies in use count towards server.read_ahead_memory."`
}

// Cache configures what a route stores.
type Cache struct {
	Store        bool     `yaml:"store" default:"true" gw:"!NoStore" help:"With false nothing is stored. Requests still share calls in flight."`
	TTL          Duration `yaml:"ttl" default:"none" min:"1ms" max:"8760h" none:"0" gw:"Cache.TTL" help:"Replaces the freshness that the origin states. Responses without any become storable, except those with no-store, private or no-cache. With none, the origin decides. A change applies to what is stored from then on; a purge applies it at once."`
	ErrorTTL     Duration `yaml:"error_ttl" default:"10s" min:"1ms" max:"8760h" none:"-1" gw:"Cache.ErrorTTL" help:"Upper bound of ttl, and of the stale windows below, for responses with status 400 and above whose freshness the origin does not state. With none, the origin decides. It has no effect without ttl."`
	Force        bool     `yaml:"force" default:"false" gw:"Cache.Force" help:"Applies ttl even to responses with no-store, private or no-cache. Responses with Set-Cookie or Vary: *, and requests with credentials, are still not stored."`
	Heuristic    float64  `yaml:"heuristic" default:"0" min:"0" max:"1" gw:"Cache.Heuristic" help:"Share of the time since Last-Modified for which a response without explicit freshness is fresh (RFC 9111 section 4.2.2). 0 disables it."`
	MaxHeuristic Duration `yaml:"max_heuristic" default:"24h" min:"1s" max:"8760h" gw:"Cache.MaxHeuristic" help:"Upper bound of heuristic freshness."`
	Revalidate   Duration `yaml:"stale_while_revalidate" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleWhileRevalidate" help:"Default stale-while-revalidate window (RFC 5861) for responses that state none: stale responses are served while one call revalidates them."`
	IfError      Duration `yaml:"stale_if_error" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleIfError" help:"Default stale-if-error window (RFC 5861) for responses that state none: stale responses are served if the origin fails or a limit of the proxy is full."`
	Offline      Duration `yaml:"stale_offline" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleOffline" help:"How long after its freshness a response is served while the origin is unreachable (RFC 9111 section 4.2.4). 0s disables it."`
	Cooling      Duration `yaml:"cooling" default:"1s" min:"1ms" max:"1h" none:"-1" gw:"Cooling" help:"After a failed call, how long requests that can get a stale response do not call the origin. The time doubles with each failure in a row, up to max_cooling; a success ends it. Other requests still call the origin. With none, every request tries."`
	MaxCooling   Duration `yaml:"max_cooling" default:"30s" min:"1ms" max:"24h" gw:"MaxCooling" help:"Upper bound of cooling; at least cooling."`
	Vary         []string `yaml:"vary,omitempty" form:"field" gw:"Cache.Vary" help:"Request fields that select a separate stored response, in addition to the origin's Vary. If Authorization or Cookie is listed, requests with the same value may share. X-Forwarded-For, Forwarded, Via and X-Request-ID, which the proxy writes itself, cannot be listed; in the origin's Vary they count as *."`
	VaryCookies  []string `yaml:"vary_cookies,omitempty" form:"token" gw:"Cache.VaryCookies" help:"Cookies that select a separate stored response."`
	MaxVariants  int      `yaml:"max_variants" default:"32" min:"1" max:"256" gw:"MaxVariants" help:"Responses of one URL that are stored for different values of the fields and cookies that select one. Beyond it, the one that is used least is evicted. Responses that are for one client each are bounded by the cache's size alone."`
	Ignore       []string `yaml:"ignore_headers,omitempty" form:"ignored field" gw:"Cache.IgnoreHeaders" help:"Request fields that are removed before requests are compared and forwarded, so that no response can depend on them. [*] removes all fields of GET, HEAD and declared reads except Host, Authorization, Cookie, the fields that vary names, fields that describe the body, the Accept fields, conditions such as If-None-Match, and the IDs of requests and traces. X-Forwarded-For is then not written."`
	Unkeyed      []string `yaml:"unkeyed_headers,omitempty" form:"field pattern" gw:"Cache.UnkeyedHeaders" help:"Request fields that are forwarded as the first request has them, and not compared: a response may go to requests that differ in them. A name, the beginning of names such as X-Acme-*, or *. It never covers Authorization, Cookie, Origin, override_headers, and the forwarded host, scheme, port and prefix."`
	IgnoreCookie []string `yaml:"ignore_cookies,omitempty" form:"cookie" gw:"Cache.IgnoreCookies" help:"Cookies that are removed before requests are compared and forwarded. * means all except those in vary_cookies."`
	IgnoreClient bool     `yaml:"ignore_request_directives" default:"false" gw:"Cache.IgnoreRequestDirectives" help:"Ignores Cache-Control of requests, except no-store and only-if-cached."`
	Targeted     []string `yaml:"targeted" default:"CDN-Cache-Control" form:"field" gw:"Cache.Targeted" help:"Response fields (RFC 9213) that take precedence over Cache-Control. The first valid one in this order wins."`
	Overrides    []string `yaml:"override_headers,omitempty" form:"field" gw:"Cache.Overrides" help:"Request fields by which frameworks take another URL, host or method than those of the request. A GET or HEAD with one is forwarded, and neither stored, shared, nor answered from the store, unless the field is in vary or ignore_headers. Without this setting they are X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override, X-Method-Override, X-Host and their like, see weirhttp.DefaultOverrides; [] is none."`
	MaxObject    Size     `yaml:"max_object" default:"8MiB" min:"1KiB" max:"1TiB" gw:"MaxObject" help:"Largest body that is stored, and buffered from its first byte for requests that join. At most half of cache.memory, which is also the default of a small cache."`
	RefreshAhead float64  `yaml:"refresh_ahead" default:"0" min:"0" max:"0.5" gw:"RefreshAhead" help:"Last part of the freshness, as a share, in which a hit on a hot response refreshes it in the background. 0 disables it."`
}

// Events configures how a route shares event streams.
type Events struct {
	Share           bool     `yaml:"share" default:"false" gw:"Events.Share" help:"Shares event streams: a running one with every request that may have it, from its first event, and one that ended properly from the store. Requests with Last-Event-ID are not shared. With false, each client has its own stream."`
	TTL             Duration `yaml:"ttl" default:"none" min:"1ms" max:"8760h" none:"0" gw:"Events.TTL" help:"How long a complete stream is stored, from its end. It overrides the freshness and the no-cache that the origin sends with streams, but not no-store, private, Set-Cookie, or the rules for requests with credentials. With none, streams have the freshness of other responses."`
	End             string   `yaml:"end,omitempty" form:"event data" gw:"Events.End" help:"Data of the terminal event, such as [DONE]. A stream whose last event is another one is broken: every client sees a broken response, and it is not stored."`
	EndType         string   `yaml:"end_type,omitempty" form:"event type" gw:"Events.EndType" help:"Type of the terminal event, such as message_stop. If end is set too, either will do."`
	IncompleteTypes []string `yaml:"incomplete_types,omitempty" form:"event type" gw:"Events.IncompleteTypes" help:"Event types that make a stream incomplete, such as error: it is not stored, and no further request joins it."`
	IncompleteData  []string `yaml:"incomplete_data,omitempty" form:"event data" gw:"Events.IncompleteData" help:"Texts that make a stream incomplete if the data of an event contains one of them."`
	AsCalls         bool     `yaml:"as_calls" default:"false" gw:"Events.AsCalls" help:"Lets a running stream keep its permit of concurrency to its end, for upstreams that bound streams like other calls. With false, a stream exchanges it for a permit of the upstream's streams when its headers arrive."`
	Replay          string   `yaml:"replay" default:"fast" enum:"fast,paced" gw:"Events.Replay" help:"How stored streams are sent. fast: as fast as the client reads. paced: at the pace at which they arrived."`
}

// Rate limits the requests of each client.
type Rate struct {
	Requests int      `yaml:"requests" required:"true" min:"1" max:"1000000000" gw:"Rate" help:"Requests that a client may send in per."`
	Per      Duration `yaml:"per" default:"1s" min:"1ms" max:"24h" gw:"Per" help:"Period of requests."`
	Burst    int      `yaml:"burst" default:"0" min:"0" max:"1000000000" gw:"Burst" help:"Requests that a client may send in one burst. 0 means the same as requests."`
	By       string   `yaml:"by" default:"address" form:"client" help:"How clients are distinguished: address (IPv6 by its /64), or header:NAME, with the address for clients that do not send it, or send it more than once."`
	Clients  int      `yaml:"clients" default:"100000" min:"1" max:"100000000" gw:"Keys" help:"Number of clients to remember. A client that has used some of its rate is not forgotten for a new one. While the table is full, new clients of an address share one rate."`
}

// ClientBudget limits what the calls for each client cost.
type ClientBudget struct {
	Units   int      `yaml:"units" required:"true" min:"1" max:"1073741824" gw:"Units" help:"Units of cost that a client is refilled with every per."`
	Per     Duration `yaml:"per" default:"1m" min:"1ms" max:"24h" gw:"Per" help:"Period of units, in whole milliseconds."`
	Burst   int      `yaml:"burst" default:"0" min:"0" max:"1073741824" gw:"Burst" help:"Units that a client may spend in one burst. 0 means the same as units. A call that costs more gets 413."`
	MaxDebt Count    `yaml:"max_debt" default:"0" min:"0" max:"1073741824" none:"-1" gw:"MaxDebt" help:"Units that a client may owe after calls that cost more than their estimate; the rest is forgiven. 0 means the same as burst."`
	By      string   `yaml:"by" default:"address" form:"client" gw:"By" help:"How clients are distinguished: address (IPv6 by its /64), or header:NAME, with the address for clients that do not send it, or send it more than once. Use a header only if clients cannot make it up: a proxy sets it, or the upstream checks it."`
	Clients int      `yaml:"clients" default:"100000" min:"1" max:"100000000" gw:"Clients" help:"Number of clients to remember. A client that has spent units or has a call in flight is not forgotten for a new one. While the table is full, new clients of an address share one budget."`
	Fleet   bool     `yaml:"fleet" default:"false" gw:"Fleet" help:"A client has its units once for all proxies of the fleet, through its Redis, which gets a digest of what identifies the client. fleet.rate_failure says what happens without Redis. All proxies must have the same client_budget."`
}

// SetRequest changes the header fields of requests.
type SetRequest struct {
	Set     Fields            `yaml:"set,omitempty" secret:"true" form:"field" gw:"SetRequest" help:"Fields to set: a value or a list of values. They replace fields of the same name."`
	SetFrom map[string]string `yaml:"set_from_file,omitempty" form:"field" help:"Like set, with the name of a file that holds the value in one line: for keys and tokens."`
	Remove  []string          `yaml:"remove,omitempty" form:"field" gw:"RemoveRequest" help:"Fields to remove, also if their names have _ instead of -."`
}

// SetResponse changes the header fields of responses.
type SetResponse struct {
	Set    Fields   `yaml:"set,omitempty" secret:"true" form:"field" gw:"SetResponse" help:"Fields to set: a value or a list of values. They replace fields of the same name."`
	Remove []string `yaml:"remove,omitempty" form:"field" gw:"RemoveResponse" help:"Fields to remove."`
}

// Fields are header fields with their values, in order.
type Fields map[string][]string
