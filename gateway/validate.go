package gateway

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	gopath "path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/gateway/internal/route"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// Bounds for numbers without a specific bound.
const (
	most     = 1_000_000
	longest  = 24 * time.Hour
	soonest  = 10 * time.Millisecond // an Interval
	adaptive = 10_000                // of limit.Adaptive
)

// Validate returns all faults of c at once, each an *OptionError whose Field is
// a path such as "Routes[2].Cache.TTL". It opens nothing.
func (c Config) Validate() error {
	f := &faults{option.Faults{Package: "gateway"}}
	f.Check(c.Name == "" || isName(c.Name), "Name", quoted(c.Name), nameBound)
	f.count("MaxPasses", c.MaxPasses, 0, MaxPassesBound)
	f.Check(c.MaxDrain >= 0, "MaxDrain", c.MaxDrain, "0 or more")
	for i, p := range c.TrustedProxies {
		f.Check(p.IsValid(), index("TrustedProxies", i), p, "a network such as 10.0.0.0/8")
	}
	f.adopt("", c.Clients.Validate())
	c.validateFleet(f)
	f.Check(len(c.Upstreams) > 0, "Upstreams", "empty", "one or more")
	names := map[string]bool{}
	for i, u := range c.Upstreams {
		at := index("Upstreams", i)
		f.name(at+".Name", u.Name, names)
		u.validate(f, at)
		u.Budget.validateShared(f, at+".Budget", c.Fleet)
	}
	routes := map[string]bool{}
	for i, r := range c.Routes {
		at := index("Routes", i)
		f.name(at+".Name", r.Name, routes)
		known := names[r.Upstream]
		if r.Upstream == "" {
			known = len(c.Upstreams) == 1
		}
		f.Check(known, at+".Upstream", quoted(r.Upstream), "the name of an upstream")
		if known {
			u := c.upstream(r)
			for i, name := range r.Cache.Vary {
				f.Check(u.TellDeadline == nil || !strings.EqualFold(name, u.TellDeadline.Name), index(at+".Cache.Vary", i), quoted(name),
					"another field: the gateway writes this one for each call")
			}
			r.Idempotency.validate(f, at+".Idempotency", c)
			r.Idempotency.validateAgain(f, at+".Idempotency", u, r.Fallback.statuses())
			r.Fallback.validate(f, at+".Fallback", c, r)
			r.validateHedge(f, at, u)
			f.Check(r.cost(u) != weirhttp.Cost{} || r.Budget == nil && u.Budget == nil && r.ClientBudget == nil, at+".Cost", "none", "set, as there is a Budget")
		}
		r.validate(f, at)
		r.Budget.validateShared(f, at+".Budget", c.Fleet)
		if r.ClientBudget != nil && r.ClientBudget.Fleet {
			f.countsUnits(at+".ClientBudget", c.Fleet)
		}
	}
	return f.Err()
}

// validateFleet checks f without requiring a Tier, which only New requires.
func (c Config) validateFleet(f *faults) {
	if c.Fleet == nil {
		return
	}
	o := c.Fleet.options()
	if o.Tier == nil {
		o.Tier = fleet.NewMemory(fleet.MemoryOptions{})
	}
	f.adopt("", o.Validate())
	mode := c.Fleet.RateFailure
	f.Check(mode <= quota.FailLocalShare, "Fleet.RateFailure", mode, "FailOpen, FailClosed or FailLocalShare")
	f.Check(c.Fleet.Instances >= 0 && c.Fleet.Instances <= adaptive, "Fleet.Instances", c.Fleet.Instances, "from 0 to 10000")
	f.Check(mode != quota.FailLocalShare || c.Fleet.Instances > 0, "Fleet.Instances", c.Fleet.Instances, "the maximum number of gateways")
	meter := o.Tier.Abilities().Meter
	for i, r := range c.Routes {
		if r.Rate == nil || r.NoFleet || meter == nil {
			continue
		}
		if mode == 0 {
			f.Check(false, "Fleet.RateFailure", mode, "set, as "+index("Routes", i)+" has a Rate")
			break
		}
		rate := *r.Rate
		rate.Fleet = weirhttp.ClientLimiterFleet{Meter: meter, OnFailure: mode, Instances: max(c.Fleet.Instances, 1)}
		if _, err := weirhttp.NewClientLimiter(*r.Rate); err == nil {
			_, err = weirhttp.NewClientLimiter(rate)
			f.adopt(index("Routes", i), err)
		}
	}
}

func (u Upstream) validate(f *faults, at string) {
	f.Check(len(u.Servers) > 0, at+".Servers", "empty", "one or more")
	seen := map[string]bool{}
	for i, s := range u.Servers {
		field := index(at+".Servers", i)
		_, address, ok := parseServer(s)
		f.Check(ok, field, quoted(withoutUser(s)), "http://, https:// or h2c://, a host, perhaps a port, and nothing else, or unix: and the path of a socket")
		if ok {
			f.Check(!seen[address], field, quoted(s), "no server that was named before")
			seen[address] = true
		}
	}
	u.validateServers(f, at)
	u.validateTarget(f, at)
	u.Budget.validate(f, at+".Budget")
	f.span(at+".MaxPause", u.MaxPause, 0, time.Hour)
	f.adopt(at, weirhttp.Options{Cost: u.Cost, TellDeadline: fieldOf(u.TellDeadline)}.Validate())
	f.deadline(at+".TellDeadline", u.TellDeadline)
	if u.Adaptive {
		f.count(at+".Concurrency", u.Concurrency, 0, adaptive)
		f.Check(u.MinConcurrency <= 0, at+".MinConcurrency", u.MinConcurrency, "0 with Adaptive, which finds its limit without it")
	} else {
		f.count(at+".Concurrency", u.Concurrency, math.MinInt, most)
	}
	f.count(at+".Queue", u.Queue, math.MinInt, most)
	f.span(at+".QueueWait", u.QueueWait, math.MinInt64, longest)
	f.span(at+".OverloadAfter", u.OverloadAfter, math.MinInt64, longest)
	f.Check(u.MinConcurrency >= 0, at+".MinConcurrency", u.MinConcurrency, "at least 1, or 0 for a limit that never falls")
	f.Check(u.MaxRetryAfter == 0 || u.MaxRetryAfter >= soonest && u.MaxRetryAfter <= time.Hour, at+".MaxRetryAfter", u.MaxRetryAfter, "from 10ms to 1h, or 0 for the default")
	f.Check(u.Fair <= FairNone, at+".Fair", u.Fair, "FairClient or FairNone")
	f.count(at+".Streams", u.Streams, 0, most)
	f.span(at+".ConnectTimeout", u.ConnectTimeout, 0, longest)
	f.span(at+".IdleConn", u.IdleConn, 0, longest)
	f.count(at+".MaxIdleConns", u.MaxIdleConns, 0, most)
	f.span(at+".MaxConnAge", u.MaxConnAge, math.MinInt64, longest)
	u.Health.validate(f, at+".Health")
	u.Retry.validate(f, at+".Retry")
}

// validateServers checks what decides about the choice of a server.
func (u Upstream) validateServers(f *faults, at string) {
	f.Check(len(u.ServerSettings) <= len(u.Servers), at+".ServerSettings", len(u.ServerSettings), fmt.Sprintf("at most %d, one for each server", len(u.Servers)))
	drained := 0
	for i, s := range u.ServerSettings {
		field := index(at+".ServerSettings", i)
		f.count(field+".Weight", s.Weight, math.MinInt, 1000)
		f.count(field+".MaxInFlight", s.MaxInFlight, 0, most)
		if s.Resolve != 0 {
			f.span(field+".Resolve", s.Resolve, soonest, time.Hour)
			f.Check(i >= len(u.Servers) || IsName(u.Servers[i]), field+".Resolve", s.Resolve, "0 for a server whose host is no name")
		}
		if s.Weight < 0 {
			drained++
		}
	}
	f.Check(drained == 0 || drained < len(u.Servers), at+".ServerSettings", "all drained", "at least one server that is not drained")
	f.span(at+".SlowStart", u.SlowStart, math.MinInt64, longest)
	f.statuses(at+".Failures", u.Failures)
	u.Affinity.validate(f, at+".Affinity")
	u.Sticky.validate(f, at+".Sticky")
}

// statuses checks statuses of failures.
func (f *faults) statuses(at string, list []int) {
	for i, s := range list {
		f.count(index(at, i), s, 400, 599)
	}
}

func (h Health) validate(f *faults, at string) {
	if h.Path != "" {
		_, err := url.ParseRequestURI(h.Path)
		ok := err == nil && h.Path[0] == '/' && !strings.Contains(h.Path, "#")
		f.Check(ok, at+".Path", quoted(h.Path), "a path, escaped, perhaps with a query")
	}
	if h.Interval != 0 {
		f.span(at+".Interval", h.Interval, soonest, longest)
	}
	f.span(at+".Timeout", h.Timeout, 0, longest)
	f.count(at+".Healthy", h.Healthy, 0, most)
	f.count(at+".Unhealthy", h.Unhealthy, 0, most)
	f.count(at+".Failures", h.Failures, math.MinInt, most)
	f.span(at+".Eject", h.Eject, 0, longest)
}

func (r Retry) validate(f *faults, at string) {
	f.count(at+".Attempts", r.Attempts, 0, 10)
	f.statuses(at+".On", r.On)
	f.methods(at+".Methods", r.Methods)
	f.count(at+".Budget", r.Budget, 0, 100)
	f.span(at+".Backoff", r.Backoff, 0, time.Minute)
}

func (r Route) validate(f *faults, at string) {
	seen := map[string]bool{}
	for i, h := range r.Hosts {
		field, low := index(at+".Hosts", i), strings.ToLower(h)
		f.Check(route.ValidHost(h), field, quoted(h), `a host without a port, or "*." and a domain`)
		f.Check(!seen[low], field, quoted(h), "no host that was named before")
		seen[low] = true
	}
	f.Check(r.Path == "" || route.ValidPath(r.Path), at+".Path", quoted(r.Path), `a path, escaped, without a query, perhaps with "=" before it`)
	f.Check(r.PathMatch >= MatchSent && r.PathMatch <= MatchCaseless, at+".PathMatch", int(r.PathMatch), "MatchSent, MatchNormalized or MatchCaseless")
	r.validateTarget(f, at)
	f.methods(at+".Methods", r.Methods)
	f.statuses(at+".Failures", r.Failures)
	r.Hedge.validate(f, at+".Hedge")
	f.count(at+".Concurrency", r.Concurrency, 0, most)
	f.count(at+".Queue", r.Queue, math.MinInt, most)
	f.span(at+".QueueWait", r.QueueWait, math.MinInt64, longest)
	f.span(at+".OverloadAfter", r.OverloadAfter, math.MinInt64, longest)
	r.validateRate(f, at)
	r.Budget.validate(f, at+".Budget")
	r.ClientBudget.validate(f, at+".ClientBudget", r)
	f.span(at+".Timeout", r.Timeout, math.MinInt64, longest)
	f.span(at+".IdleTimeout", r.IdleTimeout, math.MinInt64, longest)
	f.span(at+".StreamIdleTimeout", r.StreamIdleTimeout, math.MinInt64, longest)
	f.Check(r.MaxBody >= 0, at+".MaxBody", r.MaxBody, "0 or more")
	f.deadline(at+".Deadline", r.Deadline)
	f.fields(at+".SetRequest", r.SetRequest)
	f.fields(at+".SetResponse", r.SetResponse)
	f.names(at+".RemoveRequest", r.RemoveRequest)
	f.names(at+".RemoveResponse", r.RemoveResponse)
	o := r.options()
	o.Cost = r.Cost
	f.adopt(at, o.Validate())
	for i, name := range r.Cache.IgnoreHeaders {
		f.loopless(index(at+".Cache.IgnoreHeaders", i), name)
	}
	for i, name := range r.Cache.Vary {
		ok := !slices.Contains(written, textproto.CanonicalMIMEHeaderKey(name))
		f.Check(ok, index(at+".Cache.Vary", i), quoted(name), "another field: the gateway writes this one after it has compared requests. "+
			"If responses depend on it, the route can neither store nor share them")
	}
}

// written lists the fields that the gateway writes into each request, with values that
// tell clients or requests apart. In the origin's Vary they count as a star.
var written = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Request-Id"}

// deadline checks a field with a duration, which may be nil.
func (f *faults) deadline(at string, d *weirhttp.DurationField) {
	if d == nil {
		return
	}
	f.Check(d.Name != "", at+".Name", quoted(d.Name), "the name of a field")
	f.field(at+".Name", cmp.Or(d.Name, "X"))
	f.Check(!slices.Contains(written, textproto.CanonicalMIMEHeaderKey(d.Name)), at+".Name", quoted(d.Name), "another field: the gateway writes this one")
}

// loopless rejects the header field that ends forwarding loops (H25).
func (f *faults) loopless(at, name string) {
	ok := textproto.CanonicalMIMEHeaderKey(name) != cdnloop.Field
	f.Check(ok, at, quoted(name), "another field: RFC 8586 forbids to change CDN-Loop, which ends forwarding loops")
}

func (r Route) validateRate(f *faults, at string) {
	f.clientsBy(at+".RateBy", r.RateBy)
	if r.Rate == nil {
		f.Check(r.RateBy == "", at+".RateBy", quoted(r.RateBy), "empty where there is no Rate")
		return
	}
	f.Check(r.Rate.Key == nil, at+".Rate.Key", "set", "nil: it is made from RateBy")
	f.Check(r.Rate.Client == nil, at+".Rate.Client", "set", "nil: it is made from TrustedProxies")
	f.Check(r.Rate.Fleet == weirhttp.ClientLimiterFleet{}, at+".Rate.Fleet", "set", "empty: it is made from Config.Fleet")
	f.Check(r.Rate.Name == "", at+".Rate.Name", quoted(r.Rate.Name), "empty: it is the route's")
	_, err := weirhttp.NewClientLimiter(*r.Rate)
	f.adopt(at, err)
}

// parseServer parses a server's URL, and returns its host with its port.
func parseServer(s string) (base *url.URL, address string, ok bool) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, "", false
	}
	if path, socket := strings.CutPrefix(s, "unix:"); socket {
		return &url.URL{Scheme: "unix", OmitHost: true, Path: path}, path, IsSocket(path)
	}
	port, known := map[string]string{"http": "80", "h2c": "80", "https": "443"}[u.Scheme]
	port = cmp.Or(u.Port(), port)
	n, err := strconv.ParseUint(port, 10, 16)
	if !known || err != nil || n == 0 || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return nil, "", false
	}
	// If scheme and host alone give the same URL again, it contains nothing else.
	base = &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}
	if !strings.EqualFold(base.String(), strings.TrimSuffix(s, "/")) {
		return nil, "", false
	}
	return base, net.JoinHostPort(strings.ToLower(u.Hostname()), port), true
}

// IsName reports whether the host of a server's URL is a name that can be looked up.
func IsName(server string) bool {
	u, _, ok := parseServer(server)
	if !ok || u.Scheme == "unix" {
		return !ok // it has another fault
	}
	_, err := netip.ParseAddr(u.Hostname())
	return err != nil
}

// maxSocket is how long the path of a Unix socket may be: the least of the systems' limits.
const maxSocket = 103

// IsSocket reports whether path can be that of a Unix socket: absolute and clean, of at most 103 bytes, and without
// what a URL would escape.
func IsSocket(path string) bool {
	return len(path) > 1 && len(path) <= maxSocket && path[0] == '/' && gopath.Clean(path) == path && (&url.URL{Path: path}).EscapedPath() == path
}

// faults collects the faults of a Config.
type faults struct{ option.Faults }

func (f *faults) count(field string, n, low, high int) {
	bound := fmt.Sprintf("from %d to %d", low, high)
	if low == math.MinInt {
		bound = fmt.Sprintf("at most %d", high)
	}
	f.Check(n >= low && n <= high, field, n, bound)
}

func (f *faults) span(field string, d, low, high time.Duration) {
	bound := fmt.Sprintf("from %v to %v", low, high)
	if low == math.MinInt64 {
		bound = fmt.Sprintf("at most %v", high)
	}
	f.Check(d >= low && d <= high, field, d, bound)
}

// name checks a name and that it is not in seen.
func (f *faults) name(field, name string, seen map[string]bool) {
	f.Check(isName(name), field, quoted(name), nameBound)
	f.Check(!seen[name], field, quoted(name), "unique")
	seen[name] = true
}

func (f *faults) methods(field string, methods []string) {
	for i, m := range methods {
		f.Check(isToken(m) && m == strings.ToUpper(m), index(field, i), quoted(m), "a method, in capitals")
	}
}

func (f *faults) fields(at string, h http.Header) {
	for name, values := range h {
		f.field(at+"["+quoted(name)+"]", name)
		for _, v := range values {
			ok := !strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
			f.Check(ok, at+"["+quoted(name)+"]", quoted(v), "without control characters")
		}
	}
}

func (f *faults) names(at string, names []string) {
	for i, name := range names {
		f.field(index(at, i), name)
	}
}

// framing lists the fields that belong to one connection, frame a message or route it.
var framing = []string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func (f *faults) field(at, name string) {
	f.loopless(at, name)
	ok := isToken(name) && !slices.Contains(framing, textproto.CanonicalMIMEHeaderKey(name))
	f.Check(ok, at, quoted(name), "a field that does not concern the connection or the framing")
}

// adopt adds the faults that weirhttp found in a route's options.
func (f *faults) adopt(at string, err error) {
	switch e := err.(type) { //nolint:errorlint // joined errors are taken apart one by one
	case nil:
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			f.adopt(at, err)
		}
	case *OptionError:
		f.Check(false, strings.TrimPrefix(at+"."+adopted(e.Field), "."), e.Value, e.Bound)
	default:
		f.Check(false, at, "refused", err.Error())
	}
}

// adopted returns the name in Route of a weirhttp field.
func adopted(field string) string {
	for _, is := range [][2]string{
		{"Options.Policy.", "Cache."}, {"Options.HeadTimeout", "Timeout"}, {"Options.", ""}, {"ClientLimiterOptions.", "Rate."},
		{"ClientBudgetOptions.Keys", "Clients"}, {"ClientBudgetOptions.", ""},
		{"FleetOptions.", "Fleet."},
	} {
		if rest, ok := strings.CutPrefix(field, is[0]); ok {
			return is[1] + rest
		}
	}
	return field
}

const nameBound = `1 to 64 letters, digits, ".", "_" and "-", the first a letter`

// isName reports whether s can be used in fields, metrics and logs as it is.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && strings.IndexByte("._-", c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// isToken reports whether s is a token, RFC 9110 section 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func quoted(s string) string { return strconv.Quote(s) }

func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// withoutUser returns a configured URL or address without its user and password. The
// password may hold anything, such as a slash.
func withoutUser(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	if scheme, _, ok := strings.Cut(s[:at], "://"); ok {
		return scheme + "://…" + s[at:]
	}
	return "…" + s[at:]
}
