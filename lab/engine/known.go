package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A debian describes the Debian packages of an engine or a tool.
type debian struct {
	packages string // separated by spaces
	program  string // for a tool: its file
	service  string // services that the packages would start now and at each boot, separated by spaces
	fixed    bool   // it finds its own files only where the packages put them
}

// known has all engines and tools by name.
var known = map[string]debian{
	"postgres":  {packages: postgresPackage},
	"cassandra": {packages: javaPackage},
	"nginx":     {packages: "nginx-light", program: "nginx", service: "nginx"},
	"varnish":   {packages: "varnish", program: "varnishd", service: "varnish varnishncsa"},
	"caddy":     {packages: "caddy", program: "caddy", service: "caddy"},
	"redis":     {packages: "redis-server", program: "redis-server", service: "redis-server"},
	"valkey":    {packages: "valkey-server", program: "valkey-server", service: "valkey-server"},
	"ab":        {packages: "apache2-utils", program: "ab"},
	"wrk":       {packages: "wrk", program: "wrk"},
	"hey":       {packages: "hey", program: "hey"},
	"h2load":    {packages: "nghttp2-client", program: "h2load"},
	"promtool":  {packages: "prometheus", program: "promtool", service: "prometheus"},
	"pgbouncer": {packages: "pgbouncer", program: "pgbouncer", service: "pgbouncer"},
	"chromium":  {packages: "chromium", program: "chromium"},
	"node":      {packages: "nodejs", program: "node", fixed: true},
	"npm":       {packages: "npm", program: "npm", fixed: true},
	"pip":       {packages: "python3-pip python3", program: "pip3", fixed: true},
}

// Names returns the names of all engines and tools, sorted.
func Names() []string { return slices.Sorted(maps.Keys(known)) }

// Startable reports whether [Start] starts the engine called name. The others are
// programs to run with [Command], or to start with options: [Nginx], [NginxCache],
// [Varnish], [Caddy].
func Startable(name string) bool { return starts[name] != nil }

// starts holds the engines that can start without options.
var starts = map[string]func(context.Context) (*Server, error){
	"postgres": func(ctx context.Context) (*Server, error) {
		return Postgres(ctx, PostgresOptions{})
	},
	"cassandra": func(ctx context.Context) (*Server, error) {
		return Cassandra(ctx, CassandraOptions{})
	},
	"redis": func(ctx context.Context) (*Server, error) {
		return Redis(ctx, RedisOptions{})
	},
	"valkey": func(ctx context.Context) (*Server, error) {
		return Redis(ctx, RedisOptions{Valkey: true})
	},
}

// Installed returns nil if the engine or tool called name is on this machine.
// Otherwise it returns a [*MissingError].
func Installed(name string) error {
	var err error
	switch name {
	case "postgres":
		_, err = findPostgres()
	case "cassandra":
		_, err = findCassandra()
	default:
		_, err = findProgram(name)
	}
	return err
}

func missing(name string) error {
	return &MissingError{Engine: name, Package: known[name].packages}
}

func unknown(name string) error {
	return fmt.Errorf("%w: %q; known: %s", ErrUnknown, name, strings.Join(Names(), ", "))
}
