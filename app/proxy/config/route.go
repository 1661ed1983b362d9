package config

// Route says what becomes of the requests that it matches.
type Route struct {
	Name     string   `yaml:"name" required:"true" form:"name" gw:"Name" help:"What it is called in statistics, logs and RateLimit fields. Each route has its own."`
	Hosts    []string `yaml:"hosts,omitempty" form:"pattern" gw:"Hosts" help:"Hosts it is for, without ports: shop.example, or *.example for any name below. None means all."`
	Path     string   `yaml:"path" default:"/" form:"prefix" gw:"Path" help:"Prefix of the path by whole segments: /api matches /api and /api/x, not /apix. With = before it the path is exact: =/health."`
	Match    string   `yaml:"path_match" default:"sent" enum:"sent,normalized,caseless" gw:"PathMatch" help:"Which paths path is compared with. sent: as the client sent it, so that //limited, /x/../limited, /LIMITED and /limited;x miss a route for /limited and its limits. normalized: also what the origin may make of it, with or without dot segments, doubled slashes, encoded slashes, backslashes, ;parameters and a slash at the end. caseless: likewise, without regard to case. Requests are forwarded and stored with the path as sent."`
	Methods  []string `yaml:"methods,omitempty" form:"method" gw:"Methods" help:"Methods it is for. None means all."`
	Upstream string   `yaml:"upstream,omitempty" form:"name" gw:"Upstream" help:"The name of an upstream. With a single one it may be left out."`

	Cache   Cache `yaml:"cache" help:"What is stored, beside what the origin says."`
	Share   bool  `yaml:"coalesce" default:"true" gw:"!NoCoalescing" help:"Lets requests wait for a call that is under way, where its answer is proved to be theirs too."`
	Finish  bool  `yaml:"finish_abandoned" default:"false" gw:"FinishAbandoned" help:"Lets a call whose last client has left run to its end and be stored, instead of canceling it."`
	Fleet   bool  `yaml:"fleet" default:"true" gw:"!NoFleet" help:"false leaves the route out of the fleet: its answers and its clients' rates are each proxy's own."`
	HotKeys int   `yaml:"hot_keys" default:"100" min:"0" max:"1000" gw:"HotKeys" help:"How many of its busiest URLs are known to the console, by traffic and by load time. 0 is none."`
	Observe bool  `yaml:"observe" default:"false" gw:"Observe" help:"Nothing is shared, stored or refused on this route; what would have been is counted."`

	Concurrency Count    `yaml:"concurrency" default:"none" min:"1" max:"1000000" none:"0" gw:"Concurrency" help:"Calls of this route at once, below the upstream's."`
	Queue       Count    `yaml:"queue" default:"1024" min:"1" max:"1000000" none:"-1" gw:"Queue" help:"Requests that may wait below this route's concurrency."`
	QueueWait   Duration `yaml:"queue_wait" default:"10s" min:"1ms" max:"1h" gw:"QueueWait" help:"How long they wait at most."`
	Rate        *Rate    `yaml:"rate,omitempty" gw:"Rate" help:"How often each client may ask, before anything else is looked at. Without it there is no limit."`
	Priority    string   `yaml:"priority" default:"normal" enum:"background,low,normal,high" gw:"Priority" help:"The class of the route's requests in the upstream's queue."`

	Timeout     Duration `yaml:"timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"Timeout" help:"From the start of the call, after the queue, to the head of the answer; while the body of the request moves, it does not run out. Then 504."`
	IdleTimeout Duration `yaml:"idle_timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"IdleTimeout" help:"Without progress in a body, either way."`
	StreamIdle  Duration `yaml:"stream_idle_timeout" default:"60s" min:"1ms" max:"24h" none:"-1" gw:"StreamIdleTimeout" help:"idle_timeout of event streams, gRPC and upgrades, which may be silent for long; also how long they may take to the head of the answer. It is idle_timeout where only that is set."`
	MaxBody     Size     `yaml:"max_body" default:"none" min:"1B" max:"1TiB" none:"0" gw:"MaxBody" help:"Of a request. Beyond it is 413."`

	Async *Async `yaml:"async,omitempty" help:"Makes jobs of slow requests, as jobs says: they are answered with 202 and made later."`

	Receipt    bool        `yaml:"receipt" default:"true" gw:"!NoReceipt" help:"Sends Cache-Status (RFC 9211), which says how a request was answered."`
	ReceiptKey bool        `yaml:"receipt_key" default:"false" gw:"ReceiptKey" help:"Puts the cache's key into it."`
	Request    SetRequest  `yaml:"request" help:"Changes to the fields of requests on the way up."`
	Response   SetResponse `yaml:"response" help:"Changes to the fields of answers on the way down."`
}

// Cache is what a route stores.
type Cache struct {
	Store        bool     `yaml:"store" default:"true" gw:"!NoStore" help:"false stores nothing. Requests still share calls that are under way."`
	TTL          Duration `yaml:"ttl" default:"none" min:"1ms" max:"8760h" none:"0" gw:"Cache.TTL" help:"Replaces the freshness that the origin states. It makes answers storable about which the origin says nothing, not those with no-store, private or no-cache. none obeys the origin."`
	ErrorTTL     Duration `yaml:"error_ttl" default:"10s" min:"1ms" max:"8760h" none:"-1" gw:"Cache.ErrorTTL" help:"The most that ttl gives to answers with status 400 and more, whose freshness the origin does not state. It bounds the stale windows below for them too. none leaves them to the origin. It has no effect without ttl."`
	Force        bool     `yaml:"force" default:"false" gw:"Cache.Force" help:"Makes ttl hold against no-store, private and no-cache too. Set-Cookie, Vary: * and credentials stay unstored."`
	Heuristic    float64  `yaml:"heuristic" default:"0" min:"0" max:"1" gw:"Cache.Heuristic" help:"Share of the time since Last-Modified for which an answer without explicit freshness is fresh (RFC 9111 section 4.2.2). 0 is off."`
	MaxHeuristic Duration `yaml:"max_heuristic" default:"24h" min:"1s" max:"8760h" gw:"Cache.MaxHeuristic" help:"At most that."`
	Revalidate   Duration `yaml:"stale_while_revalidate" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleWhileRevalidate" help:"Window (RFC 5861) of answers that state none: stale ones are given while one call fetches anew."`
	IfError      Duration `yaml:"stale_if_error" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleIfError" help:"Window (RFC 5861) of answers that state none: stale ones are given where the origin fails, or we are overloaded."`
	Offline      Duration `yaml:"stale_offline" default:"0s" min:"0s" max:"8760h" gw:"Cache.StaleOffline" help:"How long past its freshness an answer is given while the origin cannot be reached (RFC 9111 section 4.2.4). 0s is off."`
	Cooling      Duration `yaml:"cooling" default:"1s" min:"1ms" max:"1h" none:"-1" gw:"Cooling" help:"How long, after a failed call, requests that may get a stale response do not call the origin. It doubles with each failure in a row up to max_cooling, and a success ends it. Requests that may not get one call the origin in any case. none: each request tries."`
	MaxCooling   Duration `yaml:"max_cooling" default:"30s" min:"1ms" max:"24h" gw:"MaxCooling" help:"The most that cooling grows to; at least cooling."`
	Vary         []string `yaml:"vary,omitempty" form:"field" gw:"Cache.Vary" help:"Request fields that answers are kept apart by, beside those in the origin's Vary. With Authorization or Cookie here, requests with the same value may share."`
	VaryCookies  []string `yaml:"vary_cookies,omitempty" form:"token" gw:"Cache.VaryCookies" help:"Cookies that answers are kept apart by."`
	Ignore       []string `yaml:"ignore_headers,omitempty" form:"field" gw:"Cache.IgnoreHeaders" help:"Request fields that are taken out before comparing, and before forwarding."`
	IgnoreCookie []string `yaml:"ignore_cookies,omitempty" form:"cookie" gw:"Cache.IgnoreCookies" help:"Cookies that are taken out before comparing, and before forwarding. * stands for all that vary_cookies does not name."`
	IgnoreClient bool     `yaml:"ignore_request_directives" default:"false" gw:"Cache.IgnoreRequestDirectives" help:"Takes no Cache-Control from clients, except no-store and only-if-cached."`
	Targeted     []string `yaml:"targeted" default:"CDN-Cache-Control" form:"field" gw:"Cache.Targeted" help:"Response fields (RFC 9213) that are obeyed before Cache-Control; the first that is there and valid wins."`
	Overrides    []string `yaml:"override_headers,omitempty" form:"field" gw:"Cache.Overrides" help:"Request fields by which frameworks take another URL, host or method than those of the request. A GET or HEAD with one is forwarded, and neither stored, shared, nor answered from the store, unless the field is in vary or ignore_headers. Without this setting they are X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override, X-Method-Override, X-Host and their like, see weirhttp.DefaultOverrides; [] is none."`
	MaxObject    Size     `yaml:"max_object" default:"8MiB" min:"1KiB" max:"1TiB" gw:"MaxObject" help:"Up to which size a body is stored, and kept from its first byte for requests that join. At most half of cache.memory, which is also the default of a small cache."`
	RefreshAhead float64  `yaml:"refresh_ahead" default:"0" min:"0" max:"0.5" gw:"RefreshAhead" help:"Share of the freshness, counted from its end, in which a hit on a hot answer refreshes it in the background. 0 is off."`
}

// Rate is how often each client may ask.
type Rate struct {
	Requests int      `yaml:"requests" required:"true" min:"1" max:"1000000000" gw:"Rate" help:"How many requests a client may send in per."`
	Per      Duration `yaml:"per" default:"1s" min:"1ms" max:"24h" gw:"Per" help:"The time that requests counts for."`
	Burst    int      `yaml:"burst" default:"0" min:"0" max:"1000000000" gw:"Burst" help:"How many may come at once. 0 means as many as requests."`
	By       string   `yaml:"by" default:"address" form:"client" help:"How clients are distinguished: address (IPv6 by its /64), or header:NAME, with the address for clients that do not send it."`
	Clients  int      `yaml:"clients" default:"100000" min:"1" max:"100000000" gw:"Keys" help:"How many are remembered. A client that has used some of its rate is not forgotten for a new one. While there is no place, the new clients of an address share one rate."`
}

// SetRequest changes the fields of requests.
type SetRequest struct {
	Set     Fields            `yaml:"set,omitempty" secret:"true" form:"field" gw:"SetRequest" help:"Fields that replace those of the same name; a value or a list of them."`
	SetFrom map[string]string `yaml:"set_from_file,omitempty" form:"field" help:"As set, with the name of a file whose one line is the value: for keys and tokens."`
	Remove  []string          `yaml:"remove,omitempty" form:"field" gw:"RemoveRequest" help:"Fields that are taken out."`
}

// SetResponse changes the fields of answers.
type SetResponse struct {
	Set    Fields   `yaml:"set,omitempty" secret:"true" form:"field" gw:"SetResponse" help:"Fields that replace those of the same name; a value or a list of them."`
	Remove []string `yaml:"remove,omitempty" form:"field" gw:"RemoveResponse" help:"Fields that are taken out."`
}

// Fields are header fields with their values in order.
type Fields map[string][]string
