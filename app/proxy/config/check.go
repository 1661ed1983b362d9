package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// defaultListen is the address of the listener if none is configured.
const defaultListen = "127.0.0.1:8080"

// maxAdaptive is the largest limit that limit.Adaptive can represent exactly.
const maxAdaptive = 10_000

// place returns where a setting was written, or the section that it belongs in.
func (d *decoder) place(path string) place {
	for at := path; at != ""; {
		if n := d.nodes[at]; n != nil {
			return place{path, n}
		}
		if i := strings.LastIndexAny(at, ".["); i >= 0 {
			at = at[:i]
		} else {
			at = ""
		}
	}
	return place{path: path}
}

// wrong records a fault of a setting.
func (d *decoder) wrong(path, value, problem, suggestion string) {
	d.complain(d.place(path), value, &mistake{problem, suggestion})
}

// warn records a warning.
func (d *decoder) warn(c *Config, path, value, problem string) {
	d.wrong(path, value, problem, "")
	last := len(d.faults) - 1
	c.Warnings = append(c.Warnings, d.faults[last])
	d.faults = d.faults[:last]
}

// check finds faults in the combination of settings, and in the files that they name.
// It also runs if there are other faults, so it ignores settings that are empty because
// of those. It also fills in defaults that depend on other settings.
func (d *decoder) check(c *Config) {
	d.checkListeners(c)
	d.checkAdmin(c)
	d.checkErrorPages(c)
	d.checkFolder(c)
	d.checkFolders(c)
	d.checkUpstreams(c)
	d.checkRoutes(c)
	d.checkFleet(c)
	d.checkJobs(c)
	d.checkIdempotency(c)
	d.checkAddresses(c)
	d.checkTelemetry(c)
	d.checkGateway(c)
}

func (d *decoder) checkListeners(c *Config) {
	if len(c.Listen) == 0 {
		c.Listen = []Listener{{Address: defaultListen}}
	}
	for i, l := range c.Listen {
		path := fmt.Sprintf("listen[%d]", i)
		if l.TLS != nil {
			d.checkCertificates(c, path+".tls", l.TLS)
			if l.H2C {
				d.wrong(path+".h2c", "true", "is for listeners without tls; with tls, HTTP/2 is always served", "")
			}
		}
		if l.ProxyProtocol && len(c.TrustedProxies) == 0 && d.absent("trusted_proxies") {
			d.wrong(path+".proxy_protocol", "true", "needs trusted_proxies, the peers that may send it", "")
		}
	}
}

// checkPair checks a certificate and its key, if both are set, and returns the
// certificate if they can be used.
func (d *decoder) checkPair(c *Config, path, cert, key string) *x509.Certificate {
	if cert == "" || key == "" {
		return nil
	}
	pair, ofKey, err := certificate(cert, key)
	if err != nil {
		if ofKey {
			d.noFile(path+".key", key, err)
		} else {
			d.complain(d.place(path+".cert"), cert, err)
		}
		return nil
	}
	if m := exposed(key); m != nil {
		d.warn(c, path+".key", key, m.problem)
	}
	return pair.Leaf
}

// checkCertificates checks the certificates of a listener.
func (d *decoder) checkCertificates(c *Config, path string, t *TLS) {
	paths, leaves := []string{path}, []listen.Leaf{{Cert: d.checkPair(c, path, t.Cert, t.Key)}}
	for i, more := range t.More {
		at := fmt.Sprintf("%s.more[%d]", path, i)
		paths = append(paths, at)
		leaves = append(leaves, listen.Leaf{Cert: d.checkPair(c, at, more.Cert, more.Key), Names: more.Names})
	}
	now := time.Now()
	for i, l := range leaves {
		if l.Cert == nil {
			return // the names of the others may have been meant for it
		}
		if end := l.Cert.NotAfter; end.Before(now) {
			// Not a fault: a restart would take all other names offline.
			d.warn(c, paths[i]+".cert", "", "expired on "+end.UTC().Format(time.DateOnly)+"; clients reject it")
		}
	}
	for _, err := range listen.CheckNames(leaves) {
		e, ok := errors.AsType[*listen.NameError](err)
		if !ok {
			continue
		}
		at := paths[e.At] + ".cert"
		if leaves[e.At].Names != nil {
			k := slices.IndexFunc(leaves[e.At].Names, func(name string) bool { return strings.EqualFold(name, e.Name) })
			at = d.item(fmt.Sprintf("%s.names[%d]", paths[e.At], k))
		}
		problem := e.Problem
		if e.Other >= 0 {
			problem += ": that of " + paths[e.Other]
		}
		d.wrong(at, e.Name, problem, "")
	}
}

func (d *decoder) checkAdmin(c *Config) {
	a := c.Admin
	if a.TokenFile != "" {
		if _, err := c.AdminToken(); err != nil {
			d.noFile("admin.token_file", a.TokenFile, err)
		} else if m := exposed(a.TokenFile); m != nil {
			d.warn(c, "admin.token_file", a.TokenFile, m.problem)
		}
	}
	if a.Address == "" {
		if a.TokenFile != "" && !d.doubtful("admin.address") {
			d.warn(c, "admin.token_file", a.TokenFile, "has no effect without admin.address")
		}
		return
	}
	if !onLoopback(a.Address) && d.absent("admin.token_file") {
		d.wrong("admin.address", a.Address, "is not on loopback, and needs admin.token_file", "")
	}
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// withBodies are the methods whose requests usually have a body.
var withBodies = []string{"PATCH", "POST", "PUT", "QUERY"}

func (d *decoder) checkUpstreams(c *Config) {
	if len(c.Upstreams) == 0 && !d.doubtful("upstreams") {
		d.wrong("upstreams", "", "is missing: name the server behind the proxy, here or with --upstream URL", "")
	}
	first := map[string]int{}
	for i, u := range c.Upstreams {
		path := fmt.Sprintf("upstreams[%d]", i)
		d.unique(first, path, "upstreams", u.Name, i)
		servers := map[string]string{}
		for j, server := range u.Servers {
			s := server.URL
			at := d.item(fmt.Sprintf("%s.servers[%d]", path, j))
			if before, taken := servers[s]; taken {
				d.wrong(at, s, "is a duplicate of "+strings.TrimPrefix(before, path+"."), "")
			} else {
				servers[s] = at
			}
		}
		if u.Adaptive && (u.Concurrency == None || u.Concurrency > maxAdaptive) && !d.doubtful(path+".concurrency") {
			d.wrong(path+".concurrency", u.Concurrency.String(), fmt.Sprintf("must be 1 to %d with adaptive", maxAdaptive), "")
		}
		if u.Adaptive && u.MinLimit > 0 && !d.doubtful(path+".min_concurrency") && !d.doubtful(path+".adaptive") {
			d.wrong(path+".min_concurrency", u.MinLimit.String(), "has no effect with adaptive, which finds its limit without it: remove min_concurrency or adaptive", "")
		}
		for _, m := range u.Retry.Methods {
			if u.Retry.Attempts > 1 && slices.Contains(withBodies, m) {
				d.warn(c, path+".retry.methods", m, "retries no request that has a body")
			}
		}
		if u.TLS != nil {
			d.checkClientTLS(c, path+".tls", *u.TLS)
		}
	}
}

// checkClientTLS checks the settings of TLS connections to servers.
func (d *decoder) checkClientTLS(c *Config, path string, t UpstreamTLS) {
	if t.CA != "" {
		if _, err := authorities(t.CA); err != nil {
			d.complain(d.place(path+".ca"), t.CA, err)
		}
	}
	if d.nodes[path+".cert"] != nil && d.absent(path+".key") {
		d.wrong(path+".key", "", "is missing: a certificate needs its key", "")
	}
	if d.nodes[path+".key"] != nil && d.absent(path+".cert") {
		d.wrong(path+".cert", "", "is missing: a key needs its certificate", "")
	}
	d.checkPair(c, path, t.Cert, t.Key)
}

// unique records a fault if a name is used twice.
func (d *decoder) unique(first map[string]int, path, list, name string, i int) {
	if name == "" {
		return
	}
	if j, taken := first[name]; taken {
		d.wrong(path+".name", name, fmt.Sprintf("is the name of %s[%d] too", list, j), "")
		return
	}
	first[name] = i
}

func (d *decoder) checkRoutes(c *Config) {
	if len(c.Routes) == 0 && !d.doubtful("routes") {
		switch len(c.Upstreams) {
		case 0:
		case 1:
			c.Routes = []Route{{Name: defaultName}}
			setDefaults(fieldNamed(root, "routes").fields, reflect.ValueOf(c).Elem().FieldByName("Routes").Index(0))
		default:
			d.wrong("routes", "", "is missing: with several upstreams, routes must select the upstream of each request", "")
		}
	}
	var names []string // of upstreams
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	first := map[string]int{}
	for i := range c.Routes {
		r := &c.Routes[i]
		path := fmt.Sprintf("routes[%d]", i)
		d.unique(first, path, "routes", r.Name, i)
		d.checkRoute(c, r, path, names)
		if j := slices.IndexFunc(c.Routes[:i], func(before Route) bool { return before.covers(*r) }); j >= 0 {
			d.warn(c, path, "", fmt.Sprintf("gets no requests, because routes[%d] matches all of them first", j))
		}
	}
}

// checkVary warns about fields that select a response and do not reach the origin.
func (d *decoder) checkVary(c *Config, r *Route, path string) {
	for i, name := range r.Cache.Vary {
		is := func(other string) bool { return strings.EqualFold(other, name) }
		if slices.ContainsFunc(r.Request.Remove, is) {
			d.warn(c, d.item(fmt.Sprintf("%s.cache.vary[%d]", path, i)), name, "is also in request.remove: the origin does not get the field, so its responses cannot depend on it")
		}
	}
}

// checkHedge warns about hedges that have no second server.
func (d *decoder) checkHedge(c *Config, r *Route, path string) {
	i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if r.Hedge == nil || i < 0 {
		return
	}
	if servers := c.Upstreams[i].Servers; len(servers) == 1 && servers[0].Resolve <= 0 {
		d.warn(c, path+".hedge", "", "has no effect: the upstream "+r.Upstream+" has one server, and no other for a second call")
	}
}

// covers reports whether a route matches all requests that a later one matches.
func (r Route) covers(later Route) bool {
	spellings := []string{"sent", "normalized", "caseless"} // each matches what the one before matches, and more
	return r.Path == later.Path && slices.Equal(r.Hosts, later.Hosts) && slices.Equal(r.Methods, later.Methods) &&
		slices.Index(spellings, r.Match) >= slices.Index(spellings, later.Match)
}

// checkRoute checks a route. names are those of the upstreams, sorted; one that is faulty is
// empty.
func (d *decoder) checkRoute(c *Config, r *Route, path string, names []string) {
	known := len(names) > 0 && names[0] != ""
	isKnown := func(name string) bool { _, ok := slices.BinarySearch(names, name); return ok }
	switch at := path + ".upstream"; {
	case !known:
	case r.Upstream == "" && len(names) > 1 && d.absent(at):
		d.wrong(at, "", "is missing; the upstreams are "+some(names), "")
	case r.Upstream == "" && len(names) == 1 && d.nodes[at] == nil:
		r.Upstream = names[0]
	case r.Upstream != "" && !isKnown(r.Upstream):
		d.noUpstream(at, r.Upstream, names)
	}
	if f := r.Fallback; known && f != nil && f.Upstream != "" && !isKnown(f.Upstream) {
		d.noUpstream(path+".fallback.upstream", f.Upstream, names)
	}
	if half := c.Cache.Memory / 2; half > 0 && r.Cache.MaxObject > half {
		if at := path + ".cache.max_object"; d.nodes[at] != nil && d.doubtful("cache.memory") {
			r.Cache.MaxObject = half
		} else if d.nodes[at] != nil {
			d.wrong(at, r.Cache.MaxObject.String(), fmt.Sprintf("must be at most half of cache.memory, which is %v", c.Cache.Memory), "")
		} else {
			r.Cache.MaxObject = half
		}
	}
	if d.nodes[path+".stream_idle_timeout"] == nil {
		r.StreamIdle = r.IdleTimeout
	}
	if d.nodes[path+".cache.max_cooling"] == nil {
		r.Cache.MaxCooling = max(r.Cache.MaxCooling, r.Cache.Cooling)
	}
	d.checkVary(c, r, path)
	d.checkHedge(c, r, path)
	if name, ok := r.sharesAClientsAnswers(); ok {
		d.warn(c, path+".rate.by", r.Rate.By, "distinguishes clients by a field that does not select a separate stored response, although cache.ttl is set: "+
			"one client's response is served to the others. Add "+name+" to cache.vary if responses depend on it")
	}
	if r.Rate != nil && r.Rate.Burst == 0 {
		r.Rate.Burst = r.Rate.Requests
	}
	d.checkFiled(c, path+".request.set_from_file.", r.Request.SetFrom, r.Request.Set, "set")
}

// noUpstream records that no upstream has that name. names are those that exist.
func (d *decoder) noUpstream(at, name string, names []string) {
	problem, near := "is not an upstream", ""
	if len(d.faults) <= MaxFaults { // the others are not shown
		near = nearest(name, names)
	}
	if near == "" {
		problem += "; the upstreams are " + some(names)
	}
	d.wrong(at, name, problem, near)
}

// flatten splits joined errors.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, flatten(e)...)
		}
		return out
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// sharesAClientsAnswers reports whether r serves one client's responses to clients that
// its rate distinguishes by a field, and returns that field.
func (r *Route) sharesAClientsAnswers() (name string, ok bool) {
	if r.Rate == nil || !r.Cache.Store || r.Cache.TTL <= 0 {
		return "", false
	}
	if name, ok = strings.CutPrefix(r.Rate.By, "header:"); !ok {
		return "", false
	}
	is := func(other string) bool { return strings.EqualFold(other, name) }
	// Requests with these fields share only responses that are marked as shareable.
	if is("Authorization") || is("Cookie") {
		return "", false
	}
	return name, !slices.ContainsFunc(r.Cache.Vary, is) && !slices.ContainsFunc(r.Cache.Ignore, is)
}
