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

	"github.com/weir-go/weir/lab/internal/cert"
)

// The defaults of ProxyOptions.
const (
	DefaultProxyStore   = 64 << 20
	DefaultProxyWorkers = 2
)

// ProxyOptions configure [NginxCache], [Varnish], [Caddy] and [Weir]. They are the same
// for all four, so that these can be compared.
type ProxyOptions struct {
	// Upstream is the origin, host:port. Required.
	Upstream string

	// Store is the size of the cache in bytes, at least 1 MiB; 0 means
	// DefaultProxyStore. Caddy has no cache.
	Store int64

	// Workers is the number of processes of nginx, and of thread pools of Varnish; 0
	// means DefaultProxyWorkers. Caddy has one thread for each processor that it may
	// use.
	Workers int

	// MaxCalls bounds the concurrent calls to the origin; 0 means no bound. How
	// further calls are treated depends on the proxy.
	MaxCalls int

	// Pass forwards each request: nothing is stored, and no request waits for
	// another. weir has no setting for that here; its origin has to send no-store.
	Pass bool

	// TLS, if not nil, also enables TLS with that certificate, for HTTP/1.1 and HTTP/2.
	// Server.Secure is the URL: on the same port of 127.0.0.3, which must be in the
	// certificate. Varnish has no TLS and ignores it.
	TLS *cert.Pair

	// HTTP2 also enables HTTP/2 without TLS, with prior knowledge: for Caddy and weir
	// on their port, for nginx on the same port of 127.0.0.2, because nginx 1.22 supports one
	// protocol per address. Varnish ignores it.
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

// isAddress reports whether s is a host:port that is safe in a configuration.
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

// NginxCache starts nginx as a caching reverse proxy in front of one origin,
// otherwise like [Nginx]. Its configuration is conf/nginx-cache.conf.
func NginxCache(ctx context.Context, o ProxyOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if _, err := o.configuration("nginx-cache.conf", ""); err != nil {
		return nil, fmt.Errorf("engine: start nginx: %w", err)
	}
	return o.secured(Nginx(ctx, NginxOptions{Workers: o.Workers, Files: o.files(), Config: func(listen string) string {
		text, _ := o.configuration("nginx-cache.conf", listen) // it succeeded above
		return text
	}}))
}

// files returns the files that the configurations name.
func (o ProxyOptions) files() map[string][]byte {
	if o.TLS == nil {
		return nil
	}
	return map[string][]byte{"cert.pem": o.TLS.Cert, "key.pem": o.TLS.Key}
}

// secured adds the URL for TLS to a server that has started.
func (o ProxyOptions) secured(s *Server, err error) (*Server, error) {
	if err == nil && o.TLS != nil {
		s.Secure = on(s, "https", "127.0.0.3")
	}
	return s, err
}

// on returns the URL of a server's port on another address.
func on(s *Server, scheme, host string) string {
	return scheme + strings.Replace(strings.TrimPrefix(s.URL, "http"), "127.0.0.1", host, 1)
}

// Varnish starts Varnish on a free loopback port as a caching reverse proxy in front
// of one origin, with its store in memory. Its configuration is conf/varnish.vcl,
// which Varnish compiles: that requires a C compiler, on which Debian's package
// depends. It returns when requests are accepted. As root it runs as the user nobody.
//
// ctx bounds only the start; the server runs until Stop. The error is a
// [*MissingError] on a machine without Varnish.
func Varnish(ctx context.Context, o ProxyOptions) (*Server, error) {
	p, err := o.find("varnish")
	if err != nil {
		return nil, err
	}
	return o.start(ctx, "varnish", p, "varnish.vcl", "Child launched OK", func(dir, listen string, o ProxyOptions) []string {
		return []string{
			"-F", // in the foreground
			"-n", filepath.Join(dir, "work"), "-f", filepath.Join(dir, "varnish.vcl"),
			"-a", listen, "-T", "none", // no management interface
			"-j", "none", // it has no privileges to drop
			"-s", fmt.Sprintf("malloc,%d", o.Store),
			"-p", fmt.Sprintf("thread_pools=%d", o.Workers), // the documentation recommends two
		}
	})
}

// Caddy starts Caddy on a free loopback port as a reverse proxy in front of one
// origin. It has no cache. Its configuration is conf/Caddyfile. Otherwise it is like
// [Varnish].
func Caddy(ctx context.Context, o ProxyOptions) (*Server, error) {
	p, err := o.find("caddy")
	if err != nil {
		return nil, err
	}
	return o.secured(o.start(ctx, "caddy", p, "Caddyfile", "serving initial configuration", func(dir, _ string, _ ProxyOptions) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile")}
	}))
}

// Weir starts program, which is weir, as a caching reverse proxy in front of one
// origin. Its configuration is conf/weir.yaml. Otherwise it is like [Varnish], which
// as root needs a program that other users can execute.
func Weir(ctx context.Context, program string, o ProxyOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s, err := o.secured(o.start(ctx, "weir", program, "weir.yaml", `"msg":"ready"`, func(dir, _ string, _ ProxyOptions) []string {
		return []string{"proxy", "--config", filepath.Join(dir, "weir.yaml")}
	}))
	if err == nil {
		s.Admin = on(s, "http", "127.0.0.4")
	}
	return s, err
}

// find returns the file of the program called name, if o is valid.
func (o ProxyOptions) find(name string) (string, error) {
	if err := o.validate(); err != nil {
		return "", err
	}
	return findProgram(name)
}

// start starts the program p with the committed configuration conf. It is ready once
// it has written the text ready, and listens. o must be valid.
func (o ProxyOptions) start(ctx context.Context, name, p, conf, ready string, args func(dir, listen string, o ProxyOptions) []string) (*Server, error) {
	o = o.withDefaults()
	return launch{
		name:  name,
		url:   "http://127.0.0.1:%d",
		ports: 1,
		quit:  syscall.SIGTERM, // a kill would leave Varnish's child
		command: func(h home, ports []int) (*exec.Cmd, error) {
			listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
			text, err := o.configuration(conf, listen)
			if err != nil {
				return nil, err
			}
			if err := errors.Join(h.write(conf, text), h.writeAll(o.files())); err != nil {
				return nil, err
			}
			cmd := h.command(context.Background(), p, args(h.path, listen, o)...)
			return cmd, nil
		},
		ready: func(ctx context.Context, h home, port int) bool { return said(h, ready) && connects(ctx, port) },
	}.start(ctx)
}

// said reports whether the engine has written that text. A connection alone would
// prove less: the port may belong to another program.
func said(h home, words string) bool {
	log, err := os.ReadFile(filepath.Join(h.path, "log"))
	return err == nil && strings.Contains(string(log), words)
}

// connects reports whether the port accepts connections.
func connects(ctx context.Context, port int) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
