package config

// Config is what weir proxy does. [Load] fills in every default, so a Config
// that it returned says all there is to say.
type Config struct {
	Listen         []Listener `yaml:"listen" help:"Where clients are answered. Without any it is one listener on 127.0.0.1:8080."`
	Admin          Admin      `yaml:"admin" help:"The listener for operators: console, health, statistics, metrics, explain, purge and profiles. It is a listener of its own, as none of that is for clients."`
	Log            Log        `yaml:"log" help:"What is written about what happens, to standard error; the access log to standard output."`
	Telemetry      *Telemetry `yaml:"telemetry,omitempty" help:"Where metrics and traces are sent. Without it nowhere; operators can fetch metrics at /metrics either way."`
	Drain          Drain      `yaml:"drain" help:"How the proxy shuts down."`
	Server         Server     `yaml:"server" help:"Limits on clients, for all listeners."`
	Cache          Memory     `yaml:"cache" help:"The store that all routes share."`
	Fleet          *Fleet     `yaml:"fleet,omitempty" gw:"Fleet" help:"What several proxies share: cached answers, calls under way, purges, and the rates of clients. Without it each is independent."`
	Jobs           *Jobs      `yaml:"jobs,omitempty" help:"Where the jobs of routes with async are kept, and who makes them."`
	TrustedProxies []string   `yaml:"trusted_proxies,omitempty" form:"network" help:"Those whose X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and PROXY protocol are believed. From anybody else the fields are removed."`
	Name           string     `yaml:"name" default:"weir" form:"name" gw:"Name" help:"The name of this proxy in Via, Cache-Status and Proxy-Status."`
	Loops          Loops      `yaml:"loops" help:"How forwarding loops end: each proxy puts a random name into CDN-Loop (RFC 8586) of what it forwards, and answers a request that has its own with 508."`
	Observe        bool       `yaml:"observe" default:"false" help:"Observe mode for every route: nothing is shared, stored or refused; what would have been is counted."`
	Upstreams      []Upstream `yaml:"upstreams" required:"true" gw:"Upstreams" help:"What stands behind: at least one, here or by --upstream."`
	Routes         []Route    `yaml:"routes" gw:"Routes" help:"Which requests go where, and what becomes of them. Of several that match, the one that says most wins: by host, path, method, then by the order here. With one upstream there may be none: then one route takes everything."`

	// Warnings are what is allowed and yet looks wrong.
	Warnings Faults `yaml:"-"`
}

// Listener is one address that clients connect to.
type Listener struct {
	Address       string `yaml:"address" required:"true" form:"address" help:"Host and port. Without a host it is every address of the machine."`
	TLS           *TLS   `yaml:"tls,omitempty" help:"Serves HTTPS, with HTTP/2. Without it the listener speaks HTTP/1.1 in the clear."`
	ProxyProtocol bool   `yaml:"proxy_protocol" default:"false" help:"Expects PROXY protocol version 2 before each connection from a trusted proxy. Clients without an IP address have the proxy's."`
	H2C           bool   `yaml:"h2c" default:"false" help:"Answers HTTP/2 without TLS too, from clients that know beforehand. Upgrade: h2c is refused either way."`
}

// TLS is a certificate with its key. Both files are read again when the
// configuration is.
type TLS struct {
	Cert string `yaml:"cert" required:"true" form:"file" help:"File with the certificate and its chain, PEM."`
	Key  string `yaml:"key" required:"true" form:"file" help:"File with the private key, PEM. Nobody else should be able to read it."`
}

// Admin is the listener for operators.
type Admin struct {
	Address      string   `yaml:"address,omitempty" default:"none" none:"" form:"address" help:"Host and port; none means no such listener. Off loopback a token is required."`
	TokenFile    string   `yaml:"token_file,omitempty" form:"file" help:"File with the required bearer token, one line of 16 to 4096 bytes."`
	Console      bool     `yaml:"console" default:"true" help:"Serves the web console there, at /console/."`
	ShowKeys     bool     `yaml:"show_keys" default:"false" help:"Shows keys in the console: URLs, with their queries. Otherwise each is a digest, the same as long as the proxy runs, and jobs have neither key nor owner there."`
	AllowedHosts []string `yaml:"allowed_hosts,omitempty" form:"host" help:"Names, besides localhost and the address itself, that requests to the listener may use. Any other Host is refused."`
}

// Log is what is written about what happens.
type Log struct {
	Format string   `yaml:"format" default:"json" enum:"json,text,combined" help:"json and text are for everything; combined writes the access log in the format of that name, and the rest as text."`
	Level  string   `yaml:"level" default:"info" enum:"debug,info,warn,error" help:"The least that is worth a line. It does not concern the access log."`
	Access string   `yaml:"access" default:"problems" enum:"off,errors,problems,all" help:"Which requests get a line in the access log: errors are those that failed on our side or behind us, problems are errors and those slower than slow."`
	Slow   Duration `yaml:"slow" default:"1s" min:"1ms" max:"1h" help:"From when on a request is slow."`
	Query  bool     `yaml:"query" default:"true" help:"Writes the query of a URL into the access log. false leaves it out, where it holds secrets."`
	Lines  int      `yaml:"lines_per_second" default:"100" min:"1" max:"1000000" help:"Lines of the access log; what is beyond is counted and told as a number."`
}

// Drain is how the proxy ends.
type Drain struct {
	Delay   Duration `yaml:"delay" default:"0s" min:"0s" max:"10m" help:"How long it goes on taking connections, already reported as not ready, so that balancers can look away."`
	Timeout Duration `yaml:"timeout" default:"30s" min:"0s" max:"1h" help:"How long requests have to end after that. Then they are cut."`
}

// Server are the limits on clients.
type Server struct {
	ReadHeaderTimeout Duration `yaml:"read_header_timeout" default:"10s" min:"100ms" max:"10m" help:"For the head of a request."`
	ReadTimeout       Duration `yaml:"read_timeout" default:"none" min:"100ms" max:"24h" none:"0" help:"For a whole request with its body. Large uploads take their time, so there is none; idle_timeout of the route bounds those that do not move."`
	IdleTimeout       Duration `yaml:"idle_timeout" default:"60s" min:"100ms" max:"24h" help:"How long a connection is kept between requests."`
	BodyTimeout       Duration `yaml:"body_timeout" default:"30s" min:"100ms" max:"24h" help:"Without progress in the body of a request."`
	WriteTimeout      Duration `yaml:"write_timeout" default:"30s" min:"100ms" max:"24h" help:"Without progress of a client that is sent an answer: after one to two times that it is cut."`
	MaxHeader         Size     `yaml:"max_header_bytes" default:"64KiB" min:"4KiB" max:"1MiB" help:"Of a request, all fields and the request line. Beyond it is 431."`
	MaxConnections    Count    `yaml:"max_connections" default:"none" min:"1" max:"1000000" none:"0" help:"Over all listeners. Beyond it connections wait in the kernel's queue."`
	MaxStreams        int      `yaml:"max_concurrent_streams" default:"250" min:"1" max:"10000" help:"Requests at once in one HTTP/2 connection."`
	FastHits          bool     `yaml:"fast_hits" default:"true" help:"Writes fresh cached responses to clients of HTTP/1.1 without Go's HTTP server, which is faster. Responses, limits, counters and logs are the same. Set it to false to rule it out when you look for a fault."`
	MaxDrain          Size     `yaml:"max_drain" default:"256KiB" min:"1B" max:"64MiB" gw:"MaxDrain" help:"How much of a request body that nobody read is read and thrown away to keep the client's connection."`
	ReadAhead         Size     `yaml:"read_ahead" default:"64KiB" min:"1B" max:"16MiB" none:"-1" gw:"Clients.ReadAhead" help:"Request bodies up to this size are read before admission, so that a slow client holds no permit of an upstream. Bodies without Content-Length, of gRPC, with Expect or Upgrade never are."`
	ReadAheadMemory   Size     `yaml:"read_ahead_memory" default:"32MiB" min:"64KiB" max:"64GiB" gw:"Clients.ReadAheadMemory" help:"For all bodies that are read ahead. Once it is used up, the rest of a body is read while its request holds a permit, under min_rate and blocked_share."`
	MinRate           Size     `yaml:"min_rate" default:"512B" min:"1B" max:"1MiB" none:"-1" gw:"Clients.MinRate" help:"Bytes per second that a client has to send of a request body, and read of a response that an upstream is called for, on average, while the proxy waits for nothing else. Not for event streams, upgrades and gRPC. A client that is slower is cut: 408, or a broken response."`
	MinRateGrace      Duration `yaml:"min_rate_grace" default:"10s" min:"100ms" max:"10m" gw:"Clients.Grace" help:"How long a client may be behind min_rate. One that was faster before has up to three times that."`
	BlockedShare      float64  `yaml:"blocked_share" default:"0.5" min:"0.01" max:"1" gw:"Clients.BlockedShare" help:"Share of an upstream's concurrency that calls may hold while they wait for their clients. Beyond it the slowest clients are cut while others are queued, but none that moves 128KiB per second. 1 means no bound."`
}

// Loops says when a request that comes back is a loop.
type Loops struct {
	Allow int `yaml:"allow" default:"1" min:"1" max:"100" gw:"MaxPasses" help:"How often a request may pass this proxy. More than 1 is for origins that send requests back through it on purpose."`
}

// Memory bounds the store.
type Memory struct {
	Memory Size `yaml:"memory" default:"64MiB" min:"1MiB" max:"1TiB" help:"All that is stored, and what calls in flight hold in buffers."`
}
