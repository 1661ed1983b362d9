package engine

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
)

// The defaults of ProxyOptions.
const (
	DefaultProxyStore   = 64 << 20
	DefaultProxyWorkers = 2
)

// ProxyOptions say what [NginxCache], [Varnish] and [Caddy] are started for.
// They are the same for each, so that the three can be compared.
type ProxyOptions struct {
	// Upstream is the origin, host:port. Required.
	Upstream string

	// Store is how many bytes the cache may hold, at least 1 MiB; 0 means
	// DefaultProxyStore. Caddy has none.
	Store int64

	// Workers is how many processes nginx has, and how many pools of threads
	// Varnish; 0 means DefaultProxyWorkers. Caddy has as many threads as it may
	// use processors.
	Workers int

	// MaxCalls is how many calls may run at the origin at once; 0 means no
	// bound. What becomes of others is the proxy's own.
	MaxCalls int

	// HTTP2 has clients speak HTTP/2 without TLS too, by prior knowledge: to
	// Caddy on its port, to nginx on the same port of 127.0.0.2, because nginx
	// 1.22 speaks one protocol on an address. Varnish ignores it.
	HTTP2 bool
}

func (o ProxyOptions) withDefaults() ProxyOptions {
	if o.Store == 0 {
		o.Store = DefaultProxyStore
	}
	if o.Workers == 0 {
		o.Workers = DefaultProxyWorkers
	}
	return o
}

func (o ProxyOptions) validate() error {
	var errs []error
	if !isAddress(o.Upstream) {
		errs = append(errs, fmt.Errorf("engine: ProxyOptions.Upstream is %q; want host:port", o.Upstream))
	}
	if o.Store != 0 && o.Store < 1<<20 {
		errs = append(errs, fmt.Errorf("engine: ProxyOptions.Store is %d; want 0 (%d) or at least %d", o.Store, DefaultProxyStore, 1<<20))
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("engine: ProxyOptions.Workers is %d; want 0 (%d) or more", o.Workers, DefaultProxyWorkers))
	}
	if o.MaxCalls < 0 {
		errs = append(errs, fmt.Errorf("engine: ProxyOptions.MaxCalls is %d; want 0 (no bound) or more", o.MaxCalls))
	}
	return errors.Join(errs...)
}

// isAddress reports whether s is a host:port that may stand in a
// configuration.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "" && !strings.ContainsAny(host, " \t\n;{}#$'\"\\")
}

//go:embed conf
var confs embed.FS

var confTemplates = template.Must(template.ParseFS(confs, "conf/*"))

// configuration returns the committed configuration of that name for a proxy
// that listens on listen.
func (o ProxyOptions) configuration(name, listen string) (string, error) {
	var b strings.Builder
	_, own, _ := net.SplitHostPort(listen)
	host, port, _ := net.SplitHostPort(o.Upstream) // validated
	err := confTemplates.ExecuteTemplate(&b, name, struct {
		ProxyOptions
		Listen, Port, OriginHost, OriginPort string
	}{o, listen, own, host, port})
	return b.String(), err
}

// NginxCache starts nginx as a caching reverse proxy before one origin, as
// [Nginx] does otherwise. Its configuration is conf/nginx-cache.conf.
func NginxCache(ctx context.Context, o ProxyOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if _, err := o.configuration("nginx-cache.conf", ""); err != nil {
		return nil, fmt.Errorf("engine: start nginx: %w", err)
	}
	return Nginx(ctx, NginxOptions{Workers: o.Workers, Config: func(listen string) string {
		text, _ := o.configuration("nginx-cache.conf", listen) // tried above
		return text
	}})
}

// Varnish starts Varnish on a free loopback port as a caching reverse proxy
// before one origin, with its store in memory. Its configuration is
// conf/varnish.vcl, which Varnish compiles: that takes a C compiler, on which
// Debian's package depends. It returns when requests are taken. As root it runs
// as nobody.
//
// ctx bounds the start, not the server's life: Stop ends that. A machine
// without Varnish gives a [*MissingError].
func Varnish(ctx context.Context, o ProxyOptions) (*Server, error) {
	return o.start(ctx, "varnish", "varnish.vcl", "Child launched OK", func(dir, listen string, o ProxyOptions) []string {
		return []string{
			"-F", // in the foreground
			"-n", filepath.Join(dir, "work"), "-f", filepath.Join(dir, "varnish.vcl"),
			"-a", listen, "-T", "none", // nobody gives it orders
			"-j", "none", // it has no rights that it could give up
			"-s", fmt.Sprintf("malloc,%d", o.Store),
			"-p", fmt.Sprintf("thread_pools=%d", o.Workers), // two are the documentation's advice
		}
	})
}

// Caddy starts Caddy on a free loopback port as a reverse proxy before one
// origin. It has no cache. Its configuration is conf/Caddyfile. Otherwise it is
// as [Varnish].
func Caddy(ctx context.Context, o ProxyOptions) (*Server, error) {
	return o.start(ctx, "caddy", "Caddyfile", "serving initial configuration", func(dir, _ string, _ ProxyOptions) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile")}
	})
}

// start starts the program called name with the committed configuration conf.
// It is up once it has written the words of ready,
// and listens.
func (o ProxyOptions) start(ctx context.Context, name, conf, ready string, args func(dir, listen string, o ProxyOptions) []string) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	p, err := findProgram(name)
	if err != nil {
		return nil, err
	}
	return launch{
		name:  name,
		url:   "http://127.0.0.1:%d",
		ports: 1,
		quit:  syscall.SIGTERM, // killed, Varnish would leave its child
		command: func(h home, ports []int) (*exec.Cmd, error) {
			listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
			text, err := o.configuration(conf, listen)
			if err != nil {
				return nil, err
			}
			if err := h.write(conf, text); err != nil {
				return nil, err
			}
			cmd := h.command(context.Background(), p, args(h.path, listen, o)...)
			return cmd, nil
		},
		ready: func(ctx context.Context, h home, port int) bool { return said(h, ready) && connects(ctx, port) },
	}.start(ctx)
}

// said reports whether the engine has written those words. A connection alone
// would prove less: the port may be another program's.
func said(h home, words string) bool {
	log, err := os.ReadFile(filepath.Join(h.path, "log"))
	return err == nil && strings.Contains(string(log), words)
}

// connects reports whether somebody listens on the port.
func connects(ctx context.Context, port int) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
