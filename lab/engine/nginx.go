package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// The defaults of NginxOptions, and other bounds of nginx.
const (
	DefaultNginxWorkers   = 1
	DefaultNginxKeepalive = 64

	nginxConnections = 8192 // per worker, to clients and upstreams together
	nginxFiles       = 2 * nginxConnections
)

// NginxOptions configure nginx.
type NginxOptions struct {
	// Upstreams are the servers, host:port, that get the requests in turn (each
	// worker takes turns separately). Required without Config.
	Upstreams []string

	// Workers is the number of worker processes; 0 means
	// DefaultNginxWorkers.
	Workers int

	// Keepalive is the number of idle connections to the upstreams that each worker
	// keeps open; 0 means DefaultNginxKeepalive, and negative means none: then each
	// request has its own connection.
	Keepalive int

	// Config, if not nil, returns the text of the http block, instead of the one
	// built from Upstreams and Keepalive. It must have at least a server that listens
	// on listen, a host:port. Relative paths in it are in a folder that Stop removes.
	// Lines before it turn access logs off and set the folders of temporary files.
	// [NginxCache] uses such a Config.
	Config func(listen string) string

	// Files are further files for that folder, by name.
	Files map[string][]byte
}

// Nginx starts nginx on a free loopback port as a reverse proxy in front of the
// upstreams, over HTTP/1.1. It returns when the port accepts connections. As root it
// runs as nobody. The Server's URL is http://127.0.0.1:port.
//
// ctx bounds only the start; the server runs until Stop. The error is a
// [*MissingError] on a machine without nginx.
func Nginx(ctx context.Context, o NginxOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p, err := findProgram("nginx")
	if err != nil {
		return nil, err
	}
	n := &nginx{program: p, options: o}
	return launch{
		name:    "nginx",
		url:     "http://127.0.0.1:%d",
		ports:   1,
		quit:    syscall.SIGTERM, // ends at once; a kill would leave its workers
		command: n.command,
		ready:   n.ready,
	}.start(ctx)
}

func (o NginxOptions) validate() error {
	var errs []error
	if len(o.Upstreams) == 0 && o.Config == nil {
		errs = append(errs, errors.New("engine: NginxOptions.Upstreams is empty; want a host:port, or a Config"))
	}
	for _, u := range o.Upstreams {
		if !isAddress(u) {
			errs = append(errs, fmt.Errorf("engine: NginxOptions.Upstreams has %q; want host:port", u))
		}
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("engine: NginxOptions.Workers is %d; want 0 (%d) or more", o.Workers, DefaultNginxWorkers))
	}
	return errors.Join(errs...)
}

// An nginx is a server that is starting.
type nginx struct {
	program string
	options NginxOptions
}

func (n *nginx) command(h home, ports []int) (*exec.Cmd, error) {
	if err := h.write("nginx.conf", n.config(fmt.Sprintf("127.0.0.1:%d", ports[0]))); err != nil {
		return nil, err
	}
	if err := h.writeAll(n.options.Files); err != nil {
		return nil, err
	}
	cmd := h.command(context.Background(), n.program, "-p", h.path, "-c", "nginx.conf", "-e", "stderr")
	return cmd, nil
}

// ready looks for the pid file, which nginx writes once it listens, and for a worker. (A
// connection proves less: the port may belong to another program.) A signal between the
// two is recorded by nginx and then forgotten until the next signal: if this program
// died there, nginx would stay.
func (n *nginx) ready(_ context.Context, h home, _ int) bool {
	b, err := os.ReadFile(filepath.Join(h.path, "nginx.pid"))
	pid := strings.TrimSpace(string(b))
	if err != nil || pid == "" {
		return false
	}
	workers, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	return err != nil || len(workers) > 0 // an error: this is not Linux
}

func (n *nginx) config(listen string) string {
	workers := n.options.Workers
	if workers == 0 {
		workers = DefaultNginxWorkers
	}
	content := n.proxy
	if n.options.Config != nil {
		content = n.options.Config
	}
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off;\npid nginx.pid;\nworker_processes %d;\n", workers)
	fmt.Fprintf(&b, "worker_rlimit_nofile %d;\nevents { worker_connections %d; }\n", mayOpen(nginxFiles), nginxConnections)
	fmt.Fprint(&b, "http {\naccess_log off;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "%s_temp_path %[1]s;\n", kind)
	}
	fmt.Fprintf(&b, "%s}\n", content(listen))
	return b.String()
}

// proxy returns a server block that forwards every request to one of the upstreams.
func (n *nginx) proxy(listen string) string {
	var b strings.Builder
	fmt.Fprint(&b, "upstream upstreams {\n")
	for _, u := range n.options.Upstreams {
		fmt.Fprintf(&b, "server %s;\n", u)
	}
	keepalive := n.options.Keepalive
	if keepalive == 0 {
		keepalive = DefaultNginxKeepalive
	}
	connection := "close"
	if keepalive > 0 {
		connection = ""
		fmt.Fprintf(&b, "keepalive %d;\n", keepalive)
	}
	fmt.Fprintf(&b, "}\nserver {\nlisten %s;\nlocation / {\nproxy_pass http://upstreams;\n", listen)
	fmt.Fprintf(&b, "proxy_http_version 1.1;\nproxy_set_header Connection %q;\n}\n}\n", connection)
	return b.String()
}

// mayOpen returns how many files a process can open here, at most want.
func mayOpen(want uint64) uint64 {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		return want
	}
	return min(want, have.Max)
}
