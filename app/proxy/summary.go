package proxy

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/console/build"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/plain"
)

// welcome reports that the proxy serves, and what: a few lines for a person, or one log
// line for a machine.
func (p *proxy) welcome() {
	if p.o.Terminal {
		fmt.Fprintf(p.messages, "%s %s: %s\n", p.name(), build.Version(), plain.Line(p.o.Source))
		Summary(p.messages, p.settings, p.addresses())
		fmt.Fprintln(p.messages, "Ready. Press Ctrl-C to stop; send SIGHUP to reload the configuration.")
		return
	}
	var public []string
	for i, c := range p.settings.Listen {
		public = append(public, c.Scheme()+"://"+p.addresses()[i])
	}
	args := []any{"version", build.Version(), "source", p.o.Source, "listen", public, "upstreams", len(p.settings.Gateway.Upstreams), "routes", len(p.settings.Gateway.Routes)}
	if p.settings.Admin.Address != "" {
		args = append(args, "admin", "http://"+p.addresses()[len(public)])
		if at := p.console(); at != "" {
			args = append(args, "console", at)
		}
	}
	if t := p.settings.Telemetry; t != nil {
		where, what := telemetrySummary(t)
		args = append(args, "telemetry", where, "sends", what)
	}
	if p.jobs != nil {
		if v := p.jobs.backend.Load(); v != nil {
			args = append(args, "jobs", v.where, "durability", v.store.Durability().String())
		} else {
			args = append(args, "jobs", "refused, see /readyz")
		}
	}
	p.logger.Info("ready", args...)
}

// addresses returns the addresses of the listeners, in the order of listenerSpecs.
func (p *proxy) addresses() []string {
	var all []string
	for _, d := range p.listeners {
		all = append(all, d.server.Address())
	}
	return all
}

// console returns the URL of the console, empty for none.
func (p *proxy) console() string {
	if a := p.settings.Admin; a.Address == "" || !a.Console {
		return ""
	}
	return consoleAddress(p.addresses()[len(p.settings.Listen)])
}

// Summary describes what s does, in a few lines. addresses are those of the listeners,
// followed by the admin listener's; nil means the configured ones.
func Summary(w io.Writer, s Settings, addresses []string) {
	if addresses == nil {
		for _, d := range listenerSpecs(s) {
			addresses = append(addresses, d.config.Address)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer tw.Flush()
	section := func(name string) func(cells ...string) {
		return func(cells ...string) {
			for i := range cells {
				cells[i] = plain.Line(cells[i])
			}
			fmt.Fprintf(tw, "  %s\t%s\n", name, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
			name = ""
		}
	}
	line := section("listens")
	for i, c := range s.Listen {
		line(c.Scheme()+"://"+addresses[i], protocolsOf(c))
	}
	line = section("admin")
	if a := s.Admin; a.Address == "" {
		line("none")
	} else {
		line("http://"+addresses[len(s.Listen)], adminAccess(a))
		if a.Console {
			section("console")(consoleAddress(addresses[len(s.Listen)]), keyDisplay(a))
		}
	}
	if s.Folder.Folder != "" {
		section("cache")("in "+s.Folder.Folder, "up to "+config.Size(s.Folder.Bytes).String())
	}
	if s.Telemetry != nil {
		section("telemetry")(telemetrySummary(s.Telemetry))
	}
	if s.Fleet != nil && s.Gateway.Fleet != nil {
		section("fleet")(fleetSummary(s.Fleet, s.Gateway.Fleet))
	}
	if s.Jobs != nil {
		section("jobs")(jobsSummary(*s.Jobs, ""))
	}
	line = section("upstreams")
	for _, u := range s.Gateway.Upstreams {
		line(named(u.Name, servers(u)), calls(u))
	}
	line = section("routes")
	for _, r := range s.Gateway.Routes {
		does := protection(r)
		if s.Jobs != nil && !r.Observe {
			if o, ok := s.Jobs.Routes[r.Name]; ok {
				does += ", " + asyncSummary(o)
			}
		}
		to := upstreamOf(r, s.Gateway.Upstreams)
		if f := r.Fallback; f != nil {
			to += ", else " + f.Upstream + " (" + strings.Join(f.When, ", ") + ")"
		}
		line(named(r.Name, match(r)+" → "+to), does)
	}
	line = section("sharing")
	for _, text := range sharing(s.Gateway.Routes) {
		line(text)
	}
}

// sharing describes what keeps requests apart on routes that say nothing about it, for
// operators who expect what other proxies do.
func sharing(routes []gateway.Route) (lines []string) {
	var fields, addresses []string
	for i, r := range routes {
		if r.Observe {
			continue
		}
		name := cmp.Or(r.Name, fmt.Sprintf("route %d", i+1))
		stated := r.Cache.TTL > 0 || r.Events.Share || len(r.Reads) > 0
		silent := len(r.Cache.Vary)+len(r.Cache.UnkeyedHeaders)+len(r.Cache.IgnoreHeaders) == 0
		if stated && silent {
			fields = append(fields, name)
		}
		if !stated && silent && r.Coalesce == gateway.CoalesceProven {
			addresses = append(addresses, name)
		}
	}
	if len(fields) > 0 {
		lines = append(lines, few(fields)+": requests that differ in a header share nothing; vary, unkeyed_headers or ignore_headers say which headers matter")
	}
	if len(addresses) > 0 {
		lines = append(lines, few(addresses)+": where a response states no lifetime, clients at different addresses do not share its call; coalesce: any_client lets them")
	}
	return lines
}

// few lists names, at most five of them.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// named prefixes what with its name, if it has one.
func named(name, what string) string {
	if name == "" {
		return what
	}
	return name + ": " + what
}

func protocolsOf(c listen.Config) string {
	protocols := "HTTP/1.1"
	if c.TLS.Cert != "" || c.H2C {
		protocols = "HTTP/1.1 and HTTP/2"
	}
	if n := len(c.More); n > 0 {
		protocols += fmt.Sprintf(", %d certificates", n+1)
	}
	if len(c.ProxyProtocol) > 0 {
		protocols += ", behind the PROXY protocol"
	}
	return protocols
}

func adminAccess(a Admin) string {
	reach := "this machine only"
	if console.NeedsToken(a.Address) {
		reach = "other machines, too"
	}
	if a.Token != "" {
		return reach + ", with the token"
	}
	return reach
}

// keyDisplay describes how the console shows keys.
func keyDisplay(a Admin) string {
	if a.ShowKeys {
		return "shows keys"
	}
	return "keys are digests"
}

func servers(u gateway.Upstream) string {
	if len(u.Servers) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(u.Servers[:2], ", "), len(u.Servers)-2)
	}
	return strings.Join(u.Servers, ", ")
}

// calls describes how many concurrent calls an upstream gets.
func calls(u gateway.Upstream) string {
	n := cmp.Or(u.Concurrency, 256)
	switch {
	case n < 0:
		return "any number of calls at once"
	case u.Adaptive:
		return fmt.Sprintf("up to %d calls at once, by latency", n)
	case u.Queue == 0:
		return fmt.Sprintf("%s at once, others wait", counted(n, "call", "calls"))
	case u.Queue < 0:
		return fmt.Sprintf("%s at once, none waits", counted(n, "call", "calls"))
	default:
		return fmt.Sprintf("%s at once, %d may wait", counted(n, "call", "calls"), u.Queue)
	}
}

func match(r gateway.Route) string {
	var b strings.Builder
	if len(r.Methods) > 0 {
		b.WriteString(strings.Join(r.Methods, ",") + " ")
	}
	b.WriteString(strings.Join(r.Hosts, ","))
	b.WriteString(cmp.Or(r.Path, "/"))
	b.WriteString(map[gateway.PathMatch]string{gateway.MatchNormalized: " (normalized)", gateway.MatchCaseless: " (caseless)"}[r.PathMatch])
	return b.String()
}

func upstreamOf(r gateway.Route, all []gateway.Upstream) string {
	if r.Upstream == "" && len(all) == 1 {
		return cmp.Or(all[0].Name, servers(all[0]))
	}
	return r.Upstream
}

// protection describes what a route does besides forwarding.
func protection(r gateway.Route) string {
	if r.Observe {
		return "observes"
	}
	var does []string
	if r.Coalesce != gateway.CoalesceNone {
		does = append(does, "coalesces")
	}
	if !r.NoStore {
		does = append(does, "caches")
	}
	if r.RefreshAhead > 0 {
		does = append(does, "refreshes ahead")
	}
	if r.Rate != nil {
		per := "s"
		if r.Rate.Per > 0 && r.Rate.Per != time.Second {
			per = r.Rate.Per.String()
		}
		does = append(does, fmt.Sprintf("%d/%s a client", r.Rate.Rate, per))
	}
	if b := r.ClientBudget; b != nil {
		does = append(does, fmt.Sprintf("%d units/%s a client", b.Units, cmp.Or(b.Per, time.Minute)))
	}
	return strings.Join(does, ", ")
}

// counted formats a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
