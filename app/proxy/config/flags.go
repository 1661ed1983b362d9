package config

import "github.com/weir-go/weir/gateway"

// Flags are the flags of weir proxy that change settings; a flag that was not given is
// empty. Their tags are for package command, and path is the setting. Each flag has a
// variable with its name in capitals after WEIR_. In variables, list items are
// separated by commas. An empty variable counts as not set.
type Flags struct {
	Listen         []string `name:"listen" placeholder:"ADDRESS" path:"listen" help:"Host and port of a listener, instead of those in the file; may be repeated."`
	TLSCert        string   `name:"tls-cert" placeholder:"FILE" path:"listen[].tls.cert" help:"Certificate for the listeners of --listen."`
	TLSKey         string   `name:"tls-key" placeholder:"FILE" path:"listen[].tls.key" help:"Its private key."`
	Upstream       []string `name:"upstream" placeholder:"URL" path:"upstreams[].servers" help:"Server behind the proxy, instead of those in the file; may be repeated for equivalent servers."`
	Concurrency    string   `name:"concurrency" placeholder:"N" path:"upstreams[].concurrency" help:"Calls to the upstream at once."`
	Admin          string   `name:"admin" placeholder:"ADDRESS" path:"admin.address" help:"Host and port of the listener for operators."`
	AdminTokenFile string   `name:"admin-token-file" placeholder:"FILE" path:"admin.token_file" help:"File with the token that it requires."`
	Memory         string   `name:"memory" placeholder:"SIZE" path:"cache.memory" help:"Bound of the cache."`
	TrustedProxies []string `name:"trusted-proxies" placeholder:"NETWORK" path:"trusted_proxies" help:"Network whose X-Forwarded fields are trusted; may be repeated."`
	Observe        string   `name:"observe" placeholder:"BOOL" path:"observe" help:"true shares, stores and refuses nothing, and counts what would have been."`
	LogFormat      string   `name:"log-format" placeholder:"FORMAT" path:"log.format" help:"json, text or combined."`
	LogLevel       string   `name:"log-level" placeholder:"LEVEL" path:"log.level" help:"debug, info, warn or error."`
	AccessLog      string   `name:"access-log" placeholder:"WHICH" path:"log.access" help:"off, errors, problems or all."`
	DrainDelay     string   `name:"drain-delay" placeholder:"TIME" path:"drain.delay" help:"How long the proxy keeps accepting requests after SIGTERM."`
	DrainTimeout   string   `name:"drain-timeout" placeholder:"TIME" path:"drain.timeout" help:"How long requests in flight have to finish after that."`
}

// Source is where a configuration comes from.
type Source struct {
	// File is the name of the YAML file. Empty means the file in WEIR_CONFIG, or no
	// file.
	File string
	// Env is as in os.Environ. Names that do not begin with WEIR_ are ignored.
	Env []string
	// Flags take precedence over Env, and Env over File.
	Flags Flags

	validate func(gateway.Config) error // for tests; nil means the gateway's Validate
}
