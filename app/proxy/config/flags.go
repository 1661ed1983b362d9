package config

import "github.com/weir-go/weir/gateway"

// Flags are the flags of weir proxy that set something, as they were given:
// empty where they were not. Tags are kong's, and path is the setting. Each has
// a variable of its name in capitals, with WEIR_ before it; in a variable lists
// are separated by commas. A variable that is empty is not set.
type Flags struct {
	Listen         []string `name:"listen" sep:"none" placeholder:"ADDRESS" path:"listen" help:"Host and port to answer clients on, in place of the file's; may be repeated."`
	TLSCert        string   `name:"tls-cert" placeholder:"FILE" path:"listen[].tls.cert" help:"Certificate of the listeners that --listen names."`
	TLSKey         string   `name:"tls-key" placeholder:"FILE" path:"listen[].tls.key" help:"Its private key."`
	Upstream       []string `name:"upstream" sep:"none" placeholder:"URL" path:"upstreams[].servers" help:"Server behind the proxy, in place of the file's; may be repeated for several that do the same."`
	Concurrency    string   `name:"concurrency" placeholder:"N" path:"upstreams[].concurrency" help:"Calls to the upstream at once."`
	Admin          string   `name:"admin" placeholder:"ADDRESS" path:"admin.address" help:"Host and port of the listener for operators."`
	AdminTokenFile string   `name:"admin-token-file" placeholder:"FILE" path:"admin.token_file" help:"File with the token that it asks for."`
	Memory         string   `name:"memory" placeholder:"SIZE" path:"cache.memory" help:"Bound of the cache."`
	TrustedProxies []string `name:"trusted-proxies" sep:"none" placeholder:"NETWORK" path:"trusted_proxies" help:"Whose X-Forwarded fields are believed; may be repeated."`
	Observe        string   `name:"observe" placeholder:"BOOL" path:"observe" help:"true shares, stores and refuses nothing, and counts what would have been."`
	LogFormat      string   `name:"log-format" placeholder:"FORMAT" path:"log.format" help:"json, text or combined."`
	LogLevel       string   `name:"log-level" placeholder:"LEVEL" path:"log.level" help:"debug, info, warn or error."`
	AccessLog      string   `name:"access-log" placeholder:"WHICH" path:"log.access" help:"off, errors, problems or all."`
	DrainDelay     string   `name:"drain-delay" placeholder:"TIME" path:"drain.delay" help:"How long to go on when asked to end."`
	DrainTimeout   string   `name:"drain-timeout" placeholder:"TIME" path:"drain.timeout" help:"How long requests have to end then."`
}

// Source is where a configuration comes from.
type Source struct {
	// File is the name of the YAML file. Empty means what WEIR_CONFIG says, and
	// none without it.
	File string
	// Env is as in os.Environ. Names that do not begin with WEIR_ are ignored.
	Env []string
	// Flags win over Env, which wins over File.
	Flags Flags

	validate func(gateway.Config) error // for tests; nil is the gateway's own
}
