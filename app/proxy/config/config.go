package config

// Config is the configuration of weir proxy. [Load] fills in every default, so the Config
// that it returns is complete.
type Config struct {
	Listen         []Listener   `yaml:"listen" help:"Addresses for clients. The default is one listener on 127.0.0.1:8080."`
	Admin          Admin        `yaml:"admin" help:"The listener for operators: console, health, statistics, metrics, explain, purge and profiles. It is separate because clients must not reach any of these."`
	Log            Log          `yaml:"log" help:"The program's log, on standard error, and the access log, on standard output."`
	Telemetry      *Telemetry   `yaml:"telemetry,omitempty" help:"Where metrics and traces are sent. Without this section nothing is sent; /metrics on the admin listener works either way."`
	Drain          Drain        `yaml:"drain" help:"How the proxy shuts down."`
	Server         Server       `yaml:"server" help:"Limits on clients, for all listeners."`
	Cache          Memory       `yaml:"cache" help:"The cache that all routes share."`
	Fleet          *Fleet       `yaml:"fleet,omitempty" gw:"Fleet" help:"What several proxies share: cached responses, calls in flight, purges, and client rates. Without this section each proxy is independent."`
	Jobs           *Jobs        `yaml:"jobs,omitempty" help:"Where jobs of routes with async are stored, and which processes run them."`
	Idempotency    *Idempotency `yaml:"idempotency,omitempty" help:"Where the Idempotency-Keys of routes with idempotency are kept."`
	TrustedProxies []string     `yaml:"trusted_proxies,omitempty" form:"network" help:"Proxies whose X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and PROXY protocol are trusted. These, Forwarded and all other X-Forwarded fields are removed from requests of all other clients, before requests are compared."`
	Name           string       `yaml:"name" default:"weir" form:"name" gw:"Name" help:"The name of this proxy in Via, Cache-Status and Proxy-Status."`
	Loops          Loops        `yaml:"loops" help:"How forwarding loops end. Each proxy adds a random name to CDN-Loop (RFC 8586) of the requests it forwards, and rejects a request that contains its own name with 508."`
	ErrorPages     []ErrorPage  `yaml:"error_pages,omitempty" help:"Bodies of the proxy's own responses, such as 429, 502, 503 and 504. Their header fields stay as they are. Without a page for a status the body is one line of text."`
	Observe        bool         `yaml:"observe" default:"false" help:"Observe mode for every route: nothing is shared, stored or rejected; weir counts what would have been."`
	Upstreams      []Upstream   `yaml:"upstreams" required:"true" gw:"Upstreams" help:"The services behind the proxy. At least one is required, here or by --upstream."`
	Routes         []Route      `yaml:"routes" gw:"Routes" help:"Which requests go to which upstream, and how they are treated. If several routes match, the most specific one wins: by host, path, method, then by order in this file. With a single upstream you may omit routes: one route then takes all requests."`

	// Warnings lists settings that are allowed but look wrong.
	Warnings Faults `yaml:"-"`
}

// Listener is one address that clients connect to.
type Listener struct {
	Address       string `yaml:"address" required:"true" form:"address" help:"Host and port. An empty host means all addresses of the machine."`
	TLS           *TLS   `yaml:"tls,omitempty" help:"Serves HTTPS, with HTTP/2. Without it the listener serves HTTP/1.1 without TLS."`
	ProxyProtocol bool   `yaml:"proxy_protocol" default:"false" help:"Expects PROXY protocol version 2 at the start of each connection from a trusted proxy. Clients without an IP address get the proxy's address."`
	H2C           bool   `yaml:"h2c" default:"false" help:"Also serves HTTP/2 without TLS, to clients with prior knowledge. Upgrade: h2c is rejected either way."`
}

// TLS is a certificate with its key, and further ones. Their files are read again when they
// change.
type TLS struct {
	Cert string        `yaml:"cert" required:"true" form:"file" help:"PEM file with the certificate and its chain. With more, it is for clients that ask for none of their names."`
	Key  string        `yaml:"key" required:"true" form:"file" help:"PEM file with the private key. Only the proxy's user should be able to read it."`
	More []Certificate `yaml:"more,omitempty" help:"Further certificates, chosen by the name that the client asks for (SNI): by the exact name, then by a wildcard for one label."`
}

// Certificate is a further certificate of a listener.
type Certificate struct {
	Cert  string   `yaml:"cert" required:"true" form:"file" help:"PEM file with the certificate and its chain."`
	Key   string   `yaml:"key" required:"true" form:"file" help:"PEM file with the private key."`
	Names []string `yaml:"names,omitempty" form:"pattern" help:"Names that it is for. By default all names in the certificate. Each name has one certificate, or one with each kind of key (RSA and ECDSA)."`
}

// Admin is the listener for operators.
type Admin struct {
	Address      string   `yaml:"address,omitempty" default:"none" none:"" form:"address" help:"Host and port. Without it there is no admin listener. If it is not loopback, a token is required."`
	TokenFile    string   `yaml:"token_file,omitempty" form:"file" help:"File with the required bearer token: one line of 16 to 4096 bytes."`
	Console      bool     `yaml:"console" default:"true" help:"Serves the web console at /console/ on the admin listener."`
	ShowKeys     bool     `yaml:"show_keys" default:"false" help:"Shows keys in the console: URLs, including their queries. Otherwise the console shows a digest of each, which stays the same until the proxy restarts, and hides keys and owners of jobs."`
	AllowedHosts []string `yaml:"allowed_hosts,omitempty" form:"host" help:"Host names that requests to the admin listener may use, besides localhost and its own address. Requests with any other Host are rejected."`
}

// Log configures the logs.
type Log struct {
	Format string   `yaml:"format" default:"json" enum:"json,text,combined" help:"json and text apply to both logs. combined writes the access log in Apache's combined format and the program's log as text."`
	Level  string   `yaml:"level" default:"info" enum:"debug,info,warn,error" help:"Lowest level that is logged. It does not affect the access log."`
	Access string   `yaml:"access" default:"problems" enum:"off,errors,problems,all" help:"Which requests are written to the access log. errors: requests that failed in the proxy or the upstream. problems: errors, and requests slower than slow."`
	Slow   Duration `yaml:"slow" default:"1s" min:"1ms" max:"1h" help:"Time to the first byte of the response above which a request counts as slow."`
	Query  bool     `yaml:"query" default:"true" help:"Writes the query of a URL into the access log. Set it to false if queries contain secrets."`
	Lines  int      `yaml:"lines_per_second" default:"100" min:"1" max:"1000000" help:"Limit on lines in the access log. Lines beyond it are dropped and counted."`
}

// Drain configures the shutdown.
type Drain struct {
	Delay   Duration `yaml:"delay" default:"0s" min:"0s" max:"10m" help:"Time for which the proxy still accepts connections after it reports not ready, so that load balancers notice."`
	Timeout Duration `yaml:"timeout" default:"30s" min:"0s" max:"1h" help:"Time for requests in flight to finish after delay. Then they are cut."`
}

// Server holds the limits on clients.
type Server struct {
	ReadHeaderTimeout Duration `yaml:"read_header_timeout" default:"10s" min:"100ms" max:"10m" help:"Limit on the time for a request's header section."`
	ReadTimeout       Duration `yaml:"read_timeout" default:"none" min:"100ms" max:"24h" none:"0" help:"Limit on the time for a whole request with its body. There is none by default because large uploads take long; idle_timeout of the route cuts uploads that stop."`
	IdleTimeout       Duration `yaml:"idle_timeout" default:"60s" min:"100ms" max:"24h" help:"How long a connection stays open between requests."`
	BodyTimeout       Duration `yaml:"body_timeout" default:"30s" min:"100ms" max:"24h" help:"Limit on the time without progress in a request's body."`
	WriteTimeout      Duration `yaml:"write_timeout" default:"30s" min:"100ms" max:"24h" help:"Limit on the time in which a client reads nothing of its response. The client is cut after one to two times this value."`
	MaxHeader         Size     `yaml:"max_header_bytes" default:"64KiB" min:"4KiB" max:"1MiB" help:"Limit on the request line and all fields of a request. Larger requests get 431."`
	MaxConnections    Count    `yaml:"max_connections" default:"none" min:"1" max:"1000000" none:"0" help:"Limit over all listeners. Further connections wait in the kernel's queue."`
	MaxStreams        int      `yaml:"max_concurrent_streams" default:"250" min:"1" max:"10000" help:"Limit on concurrent requests of one HTTP/2 connection."`
	FastPath          bool     `yaml:"fast_path" default:"true" help:"Serves GET and HEAD requests without a body to clients of HTTP/1.1 without Go's HTTP server, which is faster. Responses, limits, counters and logs are the same. Set it to false to rule it out when you look for a fault."`
	MaxDrain          Size     `yaml:"max_drain" default:"256KiB" min:"1B" max:"64MiB" gw:"MaxDrain" help:"How much of an unread request body is read and discarded to keep the client's connection."`
	KeepUnderscores   bool     `yaml:"keep_underscores" default:"false" gw:"KeepUnderscores" help:"Forwards request fields whose names have an underscore. They are removed by default, because many servers cannot tell X_User from X-User."`
	ReadAhead         Size     `yaml:"read_ahead" default:"64KiB" min:"1B" max:"16MiB" none:"-1" gw:"Clients.ReadAhead" help:"Request bodies up to this size are read before admission, so that a slow client holds no permit of an upstream. Bodies without Content-Length, of gRPC, and with Expect or Upgrade are never read ahead."`
	ReadAheadMemory   Size     `yaml:"read_ahead_memory" default:"32MiB" min:"64KiB" max:"64GiB" gw:"Clients.ReadAheadMemory" help:"Memory for all bodies that are read ahead, and for those of reads (routes.reads) while they are in use. When it is full, the rest of a body is read while its request holds a permit, subject to min_rate and blocked_share."`
	MinRate           Size     `yaml:"min_rate" default:"512B" min:"1B" max:"1MiB" none:"-1" gw:"Clients.MinRate" help:"Minimum average rate, in bytes per second, at which a client must send a request body and read a response while the proxy waits only for that client. Event streams, upgrades and gRPC are exempt. A slower client gets 408 or a broken response."`
	MinRateGrace      Duration `yaml:"min_rate_grace" default:"10s" min:"100ms" max:"10m" gw:"Clients.Grace" help:"How long a client may be below min_rate. A client that was faster before has up to three times as long."`
	BlockedShare      float64  `yaml:"blocked_share" default:"0.5" min:"0.01" max:"1" gw:"Clients.BlockedShare" help:"Share of an upstream's concurrency that calls may hold while they wait for their clients. Beyond it, the slowest clients are cut while other requests are queued, except clients faster than 128KiB per second. 1 disables the limit."`
}

// Loops sets when a returning request counts as a loop.
type Loops struct {
	Allow int `yaml:"allow" default:"1" min:"1" max:"100" gw:"MaxPasses" help:"How often a request may pass this proxy. Set more than 1 if an origin sends requests back through it on purpose."`
}

// Memory limits the store.
type Memory struct {
	Memory  Size   `yaml:"memory" default:"64MiB" min:"1MiB" max:"1TiB" help:"Limit on stored responses and on buffers of calls in flight."`
	Dir     string `yaml:"dir,omitempty" form:"dir" help:"Folder in which responses survive a restart. It belongs to this proxy alone, and is created if it does not exist. Without it responses are in memory only. See the page on keeping the cache."`
	DirSize Size   `yaml:"dir_size" default:"1GiB" min:"16MiB" max:"16TiB" help:"Limit on all files in dir."`
}
