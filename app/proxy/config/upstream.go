package config

// Upstream is a pool of servers that do the same.
type Upstream struct {
	Name        string       `yaml:"name" required:"true" form:"name" gw:"Name" help:"What routes call it."`
	Servers     []string     `yaml:"servers" required:"true" least:"1" form:"server" gw:"Servers" help:"Base URLs without a path: http://host:port, https://host:port, or h2c://host:port for HTTP/2 without TLS."`
	Concurrency Count        `yaml:"concurrency" default:"256" min:"1" max:"1000000" none:"-1" gw:"Concurrency" help:"Calls at once over all servers. With adaptive it is the most that is tried, at most 10000."`
	Adaptive    bool         `yaml:"adaptive" default:"false" gw:"Adaptive" help:"Finds the number of calls from the latency."`
	Queue       Count        `yaml:"queue" default:"1024" min:"1" max:"1000000" none:"-1" gw:"Queue" help:"Requests that may wait for a call. With none, those that find no room get 503."`
	QueueWait   Duration     `yaml:"queue_wait" default:"10s" min:"1ms" max:"1h" gw:"QueueWait" help:"How long they wait at most, then 503 with Retry-After."`
	Streams     int          `yaml:"streams" default:"1024" min:"1" max:"1000000" gw:"Streams" help:"Upgrades (WebSocket) and event streams at once, counted apart from calls."`
	Connect     Duration     `yaml:"connect_timeout" default:"5s" min:"1ms" max:"10m" gw:"ConnectTimeout" help:"For dialling and the TLS handshake."`
	IdleConn    Duration     `yaml:"idle_timeout" default:"2s" min:"1ms" max:"1h" gw:"IdleConn" help:"How long a connection is kept unused, unless the server's Keep-Alive says less, from which 1s is taken off."`
	MaxIdle     int          `yaml:"max_idle_connections" default:"256" min:"1" max:"100000" gw:"MaxIdleConns" help:"Connections kept unused for each server."`
	TLS         *UpstreamTLS `yaml:"tls,omitempty" gw:"TLS" help:"For https servers; without it the system's roots and the name in the URL."`
	Health      Health       `yaml:"health" gw:"Health" help:"How servers are found to be ill. If all are, all are used."`
	Retry       Retry        `yaml:"retry" gw:"Retry" help:"What is tried again. Nothing, unless attempts says so: a request runs at the origin once."`
}

// UpstreamTLS says how https servers are verified, and who we are to them.
type UpstreamTLS struct {
	CA         string `yaml:"ca,omitempty" form:"file" help:"File with the certificates, PEM, that are trusted in place of the system's roots."`
	Cert       string `yaml:"cert,omitempty" form:"file" help:"File with our own certificate, PEM, for servers that ask for one. Needs key."`
	Key        string `yaml:"key,omitempty" form:"file" help:"File with its private key, PEM. Needs cert."`
	ServerName string `yaml:"server_name,omitempty" form:"host" help:"The name that certificates have to be for, in place of the URL's."`
}

// Health says how servers are found to be ill.
type Health struct {
	Path      string   `yaml:"path,omitempty" form:"path" gw:"Path" help:"Requested from each server with GET every interval; 200 to 399 is healthy. Without it there are no active checks."`
	Interval  Duration `yaml:"interval" default:"2s" min:"10ms" max:"1h" gw:"Interval" help:"From one check to the next."`
	Timeout   Duration `yaml:"timeout" default:"1s" min:"1ms" max:"10m" gw:"Timeout" help:"For one check."`
	Healthy   int      `yaml:"healthy" default:"2" min:"1" max:"100" gw:"Healthy" help:"Good answers in a row until a server counts as healthy."`
	Unhealthy int      `yaml:"unhealthy" default:"3" min:"1" max:"100" gw:"Unhealthy" help:"Bad answers in a row until a server counts as ill."`
	Failures  Count    `yaml:"failures" default:"5" min:"1" max:"1000" none:"-1" gw:"Failures" help:"Calls in a row that have to fail (no connection, no answer) until a server is left alone for eject. none means never."`
	Eject     Duration `yaml:"eject" default:"10s" min:"100ms" max:"1h" gw:"Eject" help:"How long it is left alone."`
}

// Retry says what is tried again.
type Retry struct {
	Attempts int      `yaml:"attempts" default:"1" min:"1" max:"10" gw:"Attempts" help:"Calls that one request may cause in all. 1 means no retry."`
	On       []int    `yaml:"statuses" default:"502,503,504" min:"400" max:"599" least:"1" gw:"On" help:"Statuses that are tried again. Broken connections always are."`
	Methods  []string `yaml:"methods" default:"GET,HEAD,OPTIONS" least:"1" form:"method" gw:"Methods" help:"Methods that are tried again. Only add one that may run twice."`
	Budget   int      `yaml:"budget" default:"10" min:"1" max:"100" gw:"Budget" help:"Retries for each 100 calls over 10s, and at least 3 in that time."`
	Backoff  Duration `yaml:"backoff" default:"25ms" min:"1ms" max:"1m" gw:"Backoff" help:"Mean wait before the first retry, doubled for each."`
}
