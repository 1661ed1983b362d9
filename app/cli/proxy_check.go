package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/plain"
)

// proxyCheckCmd is weir proxy check.
type proxyCheckCmd struct {
	Connect bool   `help:"Test each server of the upstreams: connection, TLS, and the health path."`
	Timeout string `default:"30s" placeholder:"TIME" help:"With --connect: limit on the whole test (${checktimes}). Servers that have not answered by then cannot be used."`
	JSON    bool   `name:"json" help:"Write the result as JSON."`
}

// checkSpan bounds --timeout.
var checkSpan = command.Span[time.Duration]{Least: 100 * time.Millisecond, Most: 10 * time.Minute}

// Help is the longer part of weir proxy check --help.
func (proxyCheckCmd) Help() string {
	return `Reads a configuration as weir proxy would, with the same flags and variables, and prints all of its errors at once, or a summary. It starts nothing and opens no port.

With --connect each server of each upstream gets one request, as from weir proxy, with its TLS, its Host and its base path: the path of its health checks or, without one, OPTIONS *, which has no effect. A table shows the results. Each server has the timeouts of its upstream for connecting and for a health check, and --timeout limits the whole.

With --json standard output has one object, also for an invalid configuration: source and errors, each with the file, line, column, field, value, problem and suggestion that apply. Secrets are left out. Standard error has the errors as text.

Exit code: 0 the configuration is valid, and the servers can be used; 1 a server cannot be used; 2 the configuration is invalid.`
}

// A checked is the result of weir proxy check as JSON.
type checked struct {
	Source   string          `json:"source"`
	Warnings []string        `json:"warnings"`
	Servers  []checkedServer `json:"servers,omitempty"` // with --connect
}

// An invalid is the result of weir proxy check for an invalid configuration, as JSON.
type invalid struct {
	Source string        `json:"source"`
	Errors config.Faults `json:"errors"`
}

// faultsOf returns the faults in an error of a configuration. An error without a position is
// a fault that has only a problem.
func faultsOf(err error) config.Faults {
	if f, ok := errors.AsType[config.Faults](err); ok {
		return f
	}
	var all config.Faults
	for line := range strings.Lines(err.Error()) {
		all = append(all, &config.Fault{Problem: strings.TrimSuffix(line, "\n")})
	}
	return all
}

// A checkedServer is the result of testing one server of an upstream.
type checkedServer struct {
	Upstream    string     `json:"upstream"`
	Server      string     `json:"server"`
	FallbackOf  []string   `json:"fallback_of,omitempty"` // routes that send requests there if their own upstream does not respond
	Healthy     bool       `json:"healthy"`
	Asked       string     `json:"asked"`
	Address     string     `json:"address,omitempty"`
	ConnectedMS float64    `json:"connected_ms,omitempty"`
	TLS         string     `json:"tls,omitempty"`
	Name        string     `json:"tls_name,omitempty"` // sent to the server (SNI)
	Expires     *time.Time `json:"certificate_expires,omitempty"`
	Protocol    string     `json:"protocol,omitempty"`
	Status      int        `json:"status,omitempty"`
	AnsweredMS  float64    `json:"answered_ms,omitempty"`
	Error       string     `json:"error,omitempty"`
}

// Run runs the command. The flags are those of weir proxy.
func (c *proxyCheckCmd) Run(r *command.Run, at *proxyCmd) error {
	var f command.Faults
	within := f.Duration("timeout", c.Timeout, checkSpan)
	if len(f) > 0 {
		return &command.UsageError{Command: "weir proxy check", Faults: f}
	}
	var s proxy.Settings
	var err error
	if err := r.Await(func() { s, err = at.load() }); err != nil {
		return err
	}
	if err != nil {
		if c.JSON {
			bad := invalid{Source: at.name(r.Getenv), Errors: faultsOf(err)}
			return errors.Join(configurationError(err), jobsctl.WriteJSON(r.Stdout, bad))
		}
		return configurationError(err)
	}
	out := checked{Source: at.name(r.Getenv), Warnings: append([]string{}, s.Warnings...)}
	if !c.JSON {
		for _, w := range s.Warnings {
			fmt.Fprintf(r.Stderr, "weir proxy check: warning: %s\n", plain.Line(w))
		}
		fmt.Fprintf(r.Stdout, "OK: %s\n", plain.Line(out.Source))
		proxy.Summary(r.Stdout, s, nil)
	}
	if c.Connect {
		if out.Servers, err = tryServers(r, s.Gateway, within); err != nil {
			return err
		}
		if !c.JSON {
			writeServers(r, out.Servers)
		}
	}
	if c.JSON {
		if err := jobsctl.WriteJSON(r.Stdout, out); err != nil {
			return err
		}
	}
	return unusable(out.Servers)
}

// unusable is the error for servers that cannot be used, nil if there are none.
func unusable(all []checkedServer) error {
	bad := 0
	for _, s := range all {
		if !s.Healthy {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d servers cannot be used", bad, len(all))
}

// errLate ends the test of servers that takes too long.
var errLate = errors.New("not answered within --timeout")

// tryServers tests the servers of all upstreams concurrently, for at most the time within. The
// fallbacks are among them: one that is never tried fails when it is needed.
func tryServers(r *command.Run, c gateway.Config, within time.Duration) ([]checkedServer, error) {
	all := c.Upstreams
	ctx, cancel := context.WithTimeoutCause(r.Context, within, errLate)
	defer cancel()
	total := 0
	for _, u := range all {
		total += len(u.Servers)
	}
	progress := r.Progress()
	defer progress.Close()
	var left atomic.Int64
	left.Store(int64(len(all)))
	progress.Start("connecting", func() string {
		return fmt.Sprintf("%d servers, %d of %d upstreams left", total, left.Load(), len(all))
	})
	probes := make([][]gateway.Probe, len(all))
	var running sync.WaitGroup
	for i, u := range all {
		running.Go(func() {
			defer left.Add(-1)
			probes[i] = u.Probe(ctx)
		})
	}
	running.Wait()
	if r.Context.Err() != nil {
		return nil, context.Cause(r.Context)
	}
	var out []checkedServer
	for i, u := range all {
		for _, p := range probes[i] {
			if errors.Is(p.Err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errLate) {
				p.Err = errLate
			}
			s := checkedServerOf(u, p)
			for _, route := range c.Routes {
				if route.Fallback != nil && route.Fallback.Upstream == u.Name {
					s.FallbackOf = append(s.FallbackOf, route.Name)
				}
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func checkedServerOf(u gateway.Upstream, p gateway.Probe) checkedServer {
	s := checkedServer{
		Upstream: u.Name, Server: p.Server, Healthy: p.Healthy, Asked: p.Asked, Address: p.Address, Protocol: p.Protocol, Status: p.Status,
		ConnectedMS: milliseconds(p.Connected), AnsweredMS: milliseconds(p.Answered),
	}
	if p.TLS != nil {
		s.TLS, s.Name = tls.VersionName(p.TLS.Version), p.TLS.ServerName
		if len(p.TLS.PeerCertificates) > 0 {
			s.Expires = &p.TLS.PeerCertificates[0].NotAfter
		}
	}
	if p.Err != nil {
		s.Error = plain.Line(p.Err.Error())
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// writeServers writes a line for each server.
func writeServers(r *command.Run, all []checkedServer) {
	rows := [][]string{{"upstream", "server", "connected", "TLS", "asked", "answer"}}
	for _, s := range all {
		rows = append(rows, []string{s.upstream(), plain.Line(s.Server), s.connection(), cmp.Or(s.security(), "-"), plain.Line(s.Asked), s.answer()})
	}
	width := 1 << 10 // for a file: lines are not wrapped
	if terminal.Is(r.Stdout, r.Getenv) {
		width = terminal.Width(r.Stdout)
	}
	var b strings.Builder
	b.WriteByte('\n')
	for i, lines := range figures.Columns(rows, nil, width) {
		text := strings.Join(lines, "\n")
		if i == 0 {
			text = terminal.Paint(terminal.Color(r.Stdout, r.Getenv), terminal.Bold, text)
		}
		b.WriteString(text + "\n")
	}
	io.WriteString(r.Stdout, b.String()) //nolint:errcheck // as with what stands above it
}

// upstream returns the name of the upstream, and the routes that it is a fallback of.
func (s checkedServer) upstream() string {
	name := cmp.Or(plain.Line(s.Upstream), "-")
	if len(s.FallbackOf) > 0 {
		name += " (fallback of " + plain.Line(strings.Join(s.FallbackOf, ", ")) + ")"
	}
	return name
}

func (s checkedServer) connection() string {
	if s.Address == "" {
		return "no"
	}
	return figures.Millis(s.ConnectedMS) + ", " + s.Address
}

// soon is how long before its end a certificate is reported as expiring.
const soon = 14 * 24 * time.Hour

// security describes TLS, the name in it, and until when the certificate is valid.
func (s checkedServer) security() string {
	text := s.TLS
	if s.Name != "" {
		text += ", " + plain.Line(s.Name)
	}
	if s.Expires == nil {
		return text
	}
	text += ", until " + s.Expires.UTC().Format(time.DateOnly)
	if left := time.Until(*s.Expires); left < soon {
		text += fmt.Sprintf(" (%d days left)", int(left/(24*time.Hour)))
	}
	return text
}

func (s checkedServer) answer() string {
	switch {
	case s.Error != "":
		return s.Error
	case s.Healthy:
		return fmt.Sprintf("%d in %s, %s", s.Status, figures.Millis(s.AnsweredMS), s.Protocol)
	}
	return fmt.Sprintf("%d, which is not healthy (200 to 399 is)", s.Status)
}
