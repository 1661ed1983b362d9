package soak

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cert"
	"github.com/weir-go/weir/lab/internal/link"
)

// host is the service's host name.
const host = "soak.test"

// Settings of the gateways.
const (
	memoryCap = time.Second
	deadline  = 150 * time.Millisecond // for Redis; longer than the default, because all processes share two processors
	jobLease  = 3 * time.Second
)

// A gateway is one `weir proxy`.
type gateway struct {
	process
	index                int
	plain, secure, admin string // host:port
	dir, config          string
	jobsDir              string     // empty with a cluster
	link                 *link.Link // to Redis
	serial               int64      // of its certificate
	reloads              int
	http                 *http.Client // HTTP/1.1 and HTTP/2 to this gateway
	operator             *http.Client
}

func newGateway(dir, program string, index int) (*gateway, error) {
	ports, err := engine.FreePorts(3)
	if err != nil {
		return nil, err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	g := &gateway{index: index, plain: at(0), secure: at(1), admin: at(2), dir: filepath.Join(dir, fmt.Sprintf("weir%d", index))}
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return nil, err
	}
	g.config = filepath.Join(g.dir, "weir.yaml")
	g.operator = &http.Client{Timeout: 20 * time.Second}
	dial := new(net.Dialer)
	g.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(addr, ":443") {
				return dial.DialContext(ctx, network, g.secure)
			}
			return dial.DialContext(ctx, network, g.plain)
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, ServerName: host}, //nolint:gosec // its certificate is made below
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     5 * time.Second, // so that new connections see new certificates
		DisableCompression:  true,
	}}
	g.process = process{
		name: fmt.Sprintf("weir %d", index), log: g.dir + ".log",
		cmd:   func() *exec.Cmd { return self(program, roleWeir, "proxy", "--config", g.config) },
		ready: g.isReady,
	}
	return g, g.renew()
}

// isReady queries /readyz. A gateway that rejects jobs still serves.
func (g *gateway) isReady(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := g.operator.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// write writes the configuration. It varies the settings that a reload can change.
func (g *gateway) write(source string, nats []string) error {
	jobs := fmt.Sprintf("  dir: %q\n", g.jobsDir)
	if nats != nil {
		jobs = fmt.Sprintf("  nats: [%s]\n  replicas: 3\n", strings.Join(nats, ", "))
	}
	text := fmt.Sprintf(`listen:
  - address: %s
  - {address: %s, tls: {cert: cert.pem, key: key.pem}}
admin: {address: %s}
log: {access: errors}
drain: {timeout: 10s}
server: {idle_timeout: %ds}
cache: {memory: 8MiB}
fleet:
  redis: {addresses: ["%s"]}
  namespace: soak
  memory_cap: %v
  deadline: %v
  lease: 2s
  max_keep: 2m
jobs:
%s  namespace: soak
  max_bytes: 64MiB
upstreams:
  - {name: source, servers: ["%s"], concurrency: 64}
routes:
  - name: work
    path: /work
    async: {attempts: 50, max_crashes: 50, backoff: 200ms, max_backoff: 2s, lease: %v, result_ttl: 2m, max_body: 64KiB, max_result: 64KiB}
  - name: all
    path: /
`, g.plain, g.secure, g.admin, 30+g.reloads%7, g.link.Addr(), memoryCap, deadline, jobs, source, jobLease)
	return os.WriteFile(g.config, []byte(text), 0o600)
}

// renew creates a certificate with a new serial number.
func (g *gateway) renew() error {
	pair, err := cert.New(g.serial+1, host)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key} {
		if err := os.WriteFile(filepath.Join(g.dir, name), text, 0o600); err != nil {
			return err
		}
	}
	g.serial++
	return nil
}

// presented returns the serial number of the certificate that a new connection gets.
func (g *gateway) presented(ctx context.Context) (int64, error) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: host}} //nolint:gosec // as above
	conn, err := d.DialContext(ctx, "tcp", g.secure)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}
