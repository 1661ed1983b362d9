package config

// Upstream is a pool of equivalent servers.
type Upstream struct {
	Name        string           `yaml:"name" required:"true" form:"name" gw:"Name" help:"Name that routes use."`
	Servers     []UpstreamServer `yaml:"servers" required:"true" least:"1" gw:"ServerSettings" help:"The servers. One without other settings is written as its URL."`
	Failures    []int            `yaml:"failures" default:"500,502,503,504" min:"400" max:"599" least:"1" gw:"Failures" help:"Statuses that count as failures of a server where the other servers of the upstream do not send them. A server with such failures is penalized: it is not used for 5s, and longer after each relapse. Routes can have their own."`
	Affinity    *Affinity        `yaml:"affinity,omitempty" gw:"Affinity" help:"Keeps requests with the same key at the same server, for servers that have caches. Without it, any server gets any request."`
	Sticky      *Sticky          `yaml:"sticky,omitempty" gw:"Sticky" help:"Sends a client with a session to the server that has begun it, for servers that keep sessions in memory."`
	SlowStart   Duration         `yaml:"slow_start" default:"10s" min:"100ms" max:"1h" none:"-1" gw:"SlowStart" help:"Time in which a new or recovered server reaches its share of the calls. none gives it its share immediately."`
	Host        string           `yaml:"host" default:"preserve" form:"hostfield" gw:"Host" help:"Host field of requests to the servers. preserve: as the client sent it. server: host and port of the server's URL. Or a host, perhaps with a port, which is then also the name sent to https servers (SNI), and their certificates must match it, unless tls.server_name is set. It is not part of the cache key. Location and other response fields are not rewritten."`
	BasePath    string           `yaml:"base_path,omitempty" form:"base" gw:"BasePath" help:"Path in front of the path of each request, of health checks too: /v1. It is not part of the cache key. Requests whose path has a segment .. in any spelling then get 400."`
	Concurrency Count            `yaml:"concurrency" default:"256" min:"1" max:"1000000" none:"-1" gw:"Concurrency" help:"Limit on concurrent calls over all servers. With adaptive it is the upper bound, at most 10000."`
	Adaptive    bool             `yaml:"adaptive" default:"false" gw:"Adaptive" help:"Finds the limit from the measured latency."`
	Queue       Count            `yaml:"queue,omitempty" min:"1" max:"1000000" none:"-1" gw:"Queue" help:"Requests that may wait for a permit. By default as many as are served within queue_wait, at most 16384, and 4096 while no call has ended. With none, requests beyond the limit get 503 at once."`
	QueueWait   Duration         `yaml:"queue_wait" default:"10s" min:"1ms" max:"1h" gw:"QueueWait" help:"Maximum time they wait; then 503 with Retry-After."`
	Overload    Duration         `yaml:"overload_after,omitempty" min:"1ms" max:"1h" none:"-1" gw:"OverloadAfter" help:"How long the oldest request may wait before the newest are served first. Without it they are only while waiting does not end in time: after queue_wait, after the deadline, or when clients leave. With none, they never are."`
	MinLimit    Count            `yaml:"min_concurrency" default:"none" min:"1" max:"1000000" none:"0" gw:"MinConcurrency" help:"How low the limit may fall, for its routes as well, while most calls end after their clients have left, as in a retry storm. It rises again once they end in time. With none, or as much as concurrency, it never falls. Clients that leave on purpose can make it fall, so set it to no less than the other clients need. Not together with adaptive."`
	RetryAfter  Duration         `yaml:"max_retry_after" default:"10s" min:"1s" max:"1h" gw:"MaxRetryAfter" help:"Bound of the Retry-After with which requests beyond the limit are rejected. It is random, between the expected wait and twice that, so that rejected clients do not come back together."`
	Fair        Choice           `yaml:"fair" default:"client" enum:"client,none" gw:"Fair" help:"Shares the calls between clients while requests wait, by the time that their calls take. A client is an IPv4 address or an IPv6 /64, behind trusted_proxies the address that they report, and those of a /48 have the share of one. A higher priority of a route goes first, whosever the requests are. Clients behind one NAT are one client: none serves them first come, first served."`
	Release     bool             `yaml:"release_abandoned" default:"false" gw:"ReleaseAbandoned" help:"Gives back the permit of a call as soon as its last client has left. Without it, the permit is held until the server has responded or closed its side of the connection (HTTP/1.1), or for as long as such calls take (HTTP/2), at most the route's timeout. Set it if the servers stop working for a client that has left."`
	Streams     int              `yaml:"streams" default:"1024" min:"1" max:"1000000" gw:"Streams" help:"Limit on concurrent upgrades (WebSocket) and event streams, which are counted separately from calls."`
	Cost        Cost             `yaml:"cost" gw:"Cost" help:"What a call costs, in units such as tokens: an estimate, and where the response states the cost. The estimate is units, the body and field together, at least 1."`
	Budget      *Budget          `yaml:"budget,omitempty" gw:"Budget" help:"Limit of the total cost of calls. Without it, cost is counted and not limited."`
	MaxPause    Duration         `yaml:"max_pause" default:"none" min:"1ms" max:"1h" none:"0" gw:"MaxPause" help:"Obeys the limits that the servers state, before they refuse: calls wait as Retry-After of a 429 or 503, RateLimit, RateLimit-Remaining, and x-ratelimit-remaining-requests and -tokens say, but not longer than this after the response. They wait up to queue_wait. It suits servers that have one limit together, such as an API."`
	Deadline    *DurationField   `yaml:"deadline,omitempty" gw:"TellDeadline" help:"Request field in which the servers receive how much time is left for the response to begin, in whole units. A call that several requests may share has the route's timeout, never the deadline of a client. A call for one client has that client's time, and its response is not stored. gRPC has grpc-timeout, without this setting."`
	Connect     Duration         `yaml:"connect_timeout" default:"5s" min:"1ms" max:"10m" gw:"ConnectTimeout" help:"Limit on the time for connecting and the TLS handshake."`
	IdleConn    Duration         `yaml:"idle_timeout" default:"2s" min:"1ms" max:"1h" gw:"IdleConn" help:"How long an unused connection is kept. If the server's Keep-Alive states less, 1s less than that."`
	MaxIdle     int              `yaml:"max_idle_connections" default:"256" min:"1" max:"100000" gw:"MaxIdleConns" help:"Unused connections that are kept for each server."`
	MaxAge      Duration         `yaml:"max_connection_age" default:"5m" min:"1s" max:"24h" none:"-1" gw:"MaxConnAge" help:"How long a connection is used for new calls, less up to a quarter of it, so that a name that has moved is followed. It ends no call."`
	TLS         *UpstreamTLS     `yaml:"tls,omitempty" gw:"TLS" help:"TLS for https servers. By default, certificates are checked against the system's roots and the host in the URL."`
	Health      Health           `yaml:"health" gw:"Health" help:"How unhealthy servers are detected. If all servers are unhealthy, all are used."`
	Retry       Retry            `yaml:"retry" gw:"Retry" help:"Which calls are retried. By default none: a request runs once at the origin."`
}

// UpstreamServer is one server. As text it is its URL.
type UpstreamServer struct {
	URL         string   `yaml:"url" required:"true" form:"server" help:"Base URL without a path: http://host:port, https://host:port, or h2c://host:port for HTTP/2 without TLS, or unix:/run/app.sock for HTTP/1.1 over a Unix socket."`
	Weight      int      `yaml:"weight" default:"1" min:"0" max:"1000" gw:"Weight" help:"Share of the calls in relation to the other servers. 0 drains the server: it gets no new calls. A reload with another weight keeps what is known of the server."`
	Resolve     Duration `yaml:"resolve" default:"none" min:"1s" max:"1h" none:"0" gw:"Resolve" help:"Makes each address of the host a server, with its own health, times and statistics. The host is looked up this often, in the background. An address that is missing in three answers in a row, or in one if it also fails, gets no new calls. A failed lookup changes nothing. At most 64 addresses are used, of one family."`
	MaxInFlight int      `yaml:"max_in_flight" default:"0" min:"0" max:"1000000" gw:"MaxInFlight" help:"Limit on concurrent calls to this server, without event streams and upgrades. Calls wait while all servers are at their limits. 0 means no limit."`
}

// Affinity keeps requests with the same key at the same server.
type Affinity struct {
	By     []string `yaml:"by" required:"true" least:"1" form:"key part" gw:"By" help:"Parts of the key, at most 8: path, query:NAME, header:NAME, client (its address), or body:/pointer, a JSON pointer into bodies that are read ahead (server.read_ahead, or a declared read). A part that a request does not have is left out; a request with none of them goes to any server."`
	Bound  Factor   `yaml:"bound" default:"1.25" min:"1.01" max:"100" none:"-1" gw:"Bound" help:"How many times its share of the calls in flight a server may have of its keys, and at least 8, or half of its max_in_flight; other calls go to the next server in the key's order. With none, all go to their server."`
	Prefix Size     `yaml:"prefix" default:"1KiB" min:"1B" max:"64KiB" gw:"Prefix" help:"Bytes that count of a part from a body, such as the beginning of a prompt that servers cache by its prefix."`
}

// Sticky sends a client with a session to the server that has begun it.
type Sticky struct {
	Cookie  string `yaml:"cookie" required:"true" form:"token" gw:"Cookie" help:"Name of a cookie that names the server, without its address. It is added to responses that set a cookie, and to those with Cache-Control: no-store if the client has had one, never to one that other clients get. No server must use the name."`
	KeyFile string `yaml:"key_file,omitempty" form:"file" help:"File with the key that makes the cookies, one line of at least 16 bytes. Gateways in front of the same servers need the same. Without it, the key is random, and a restart moves sessions."`
}

// Cost says what a call costs.
type Cost struct {
	Units        int     `yaml:"units" default:"0" min:"0" max:"1073741824" gw:"Units" help:"Units that each call costs."`
	BytesPerUnit int     `yaml:"bytes_per_unit" default:"0" min:"0" max:"1073741824" gw:"BytesPerUnit" help:"Bytes of the request body that cost a unit, such as 4 for text that a model reads. 0 means that the body costs nothing."`
	Field        string  `yaml:"field,omitempty" form:"cost pointer" gw:"Field" help:"JSON pointer to a number of units in the request body, such as /max_tokens. It is read in bodies of up to 64KiB, which are read before admission."`
	Default      int     `yaml:"default" default:"0" min:"0" max:"1073741824" gw:"Default" help:"Units for requests without that number, or with a body that is not read."`
	Header       string  `yaml:"header,omitempty" form:"field" gw:"Header" help:"Response field that states the cost."`
	Usage        string  `yaml:"usage,omitempty" form:"cost pointer" gw:"Usage" help:"JSON pointer to the cost in a JSON response, or in the last event of an event stream that has it, such as /usage/total_tokens. Requests ask the servers for a response without an encoding, because compressed ones are not read."`
	Price        float64 `yaml:"price" default:"0" min:"0" max:"1000000" gw:"Price" help:"What a unit costs, in currency: the console, weir top and the statistics then show money next to units. 0 shows units alone."`
	Currency     string  `yaml:"currency,omitempty" form:"currency" gw:"Currency" help:"Code of the currency, such as EUR. Required with price."`
}

// Budget limits what calls cost together.
type Budget struct {
	Units     int      `yaml:"units" required:"true" min:"1" max:"1073741824" gw:"Units" help:"Units that come back in per."`
	Per       Duration `yaml:"per" default:"1m" min:"1ms" max:"24h" gw:"Per" help:"Period of units."`
	Burst     int      `yaml:"burst" default:"0" min:"0" max:"1073741824" gw:"Burst" help:"Units that may be spent at once. 0 means the same as units. A call that costs more gets 413."`
	MaxDebt   Count    `yaml:"max_debt" default:"0" min:"0" max:"1073741824" none:"-1" gw:"MaxDebt" help:"Units that may be owed after calls that cost more than their estimate; what is above it is forgiven. 0 means the same as burst."`
	Queue     Count    `yaml:"queue" default:"1024" min:"1" max:"1000000" none:"-1" gw:"Queue" help:"Requests that may wait for units."`
	QueueWait Duration `yaml:"queue_wait" default:"10s" min:"1ms" max:"1h" gw:"QueueWait" help:"Maximum time they wait; then 503 with Retry-After."`
	Fleet     bool     `yaml:"fleet" default:"false" gw:"Fleet" help:"All proxies of the fleet spend the budget together, through its Redis. fleet.rate_failure says what happens without Redis. All proxies must have the same budget."`
}

// UpstreamTLS configures how https servers are verified, and the client certificate.
type UpstreamTLS struct {
	CA         string `yaml:"ca,omitempty" form:"file" help:"PEM file with the certificates to trust instead of the system's roots."`
	Cert       string `yaml:"cert,omitempty" form:"file" help:"PEM file with the client certificate, for servers that ask for one. Needs key."`
	Key        string `yaml:"key,omitempty" form:"file" help:"PEM file with its private key. Needs cert."`
	ServerName string `yaml:"server_name,omitempty" form:"host" help:"Name that certificates must match, instead of the upstream's host, if that is a name, or the host in the URL."`
}

// Health configures how unhealthy servers are detected.
type Health struct {
	Path      string   `yaml:"path,omitempty" form:"path" gw:"Path" help:"Path that is requested from each server with GET every interval; 200 to 399 is healthy. Without it there are no active checks."`
	Interval  Duration `yaml:"interval" default:"2s" min:"10ms" max:"1h" gw:"Interval" help:"Time between two checks."`
	Timeout   Duration `yaml:"timeout" default:"1s" min:"1ms" max:"10m" gw:"Timeout" help:"Limit on one check."`
	Healthy   int      `yaml:"healthy" default:"2" min:"1" max:"100" gw:"Healthy" help:"Successful checks in a row after which a server is healthy again."`
	Unhealthy int      `yaml:"unhealthy" default:"3" min:"1" max:"100" gw:"Unhealthy" help:"Failed checks in a row after which a server is unhealthy."`
	Failures  Count    `yaml:"failures" default:"5" min:"1" max:"1000" none:"-1" gw:"Failures" help:"Calls in a row without a response after which a server is not used for eject. none disables it."`
	Eject     Duration `yaml:"eject" default:"10s" min:"100ms" max:"1h" gw:"Eject" help:"How long such a server is not used."`
}

// Retry configures retries.
type Retry struct {
	Attempts int      `yaml:"attempts" default:"1" min:"1" max:"10" gw:"Attempts" help:"Maximum number of calls for one request. 1 means no retry."`
	On       []int    `yaml:"statuses" default:"502,503,504" min:"400" max:"599" least:"1" gw:"On" help:"Statuses that are retried. Broken connections always are."`
	Methods  []string `yaml:"methods" default:"GET,HEAD,OPTIONS" least:"1" form:"method" gw:"Methods" help:"Methods that are retried. Add only methods that may run twice. A request with a body is never retried, whatever its method."`
	Budget   int      `yaml:"budget" default:"10" min:"1" max:"100" gw:"Budget" help:"Retries per 100 calls over 10s; at least 3 in that time."`
	Backoff  Duration `yaml:"backoff" default:"25ms" min:"1ms" max:"1m" gw:"Backoff" help:"Mean delay before the first retry. It doubles with each retry."`
}
