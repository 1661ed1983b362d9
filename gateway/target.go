package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/gateway/internal/route"
)

// upstream returns the upstream of r. c must be valid.
func (c Config) upstream(r Route) Upstream {
	for _, u := range c.Upstreams {
		if u.Name == r.Upstream {
			return u
		}
	}
	return c.Upstreams[0]
}

// path returns how the paths of r's requests are mapped to those of u.
func (r Route) path(u Upstream) forward.Path {
	return forward.Path{Strip: r.StripPrefix, Caseless: r.PathMatch == MatchCaseless, Base: u.BasePath}
}

// maps reports whether the path of r can be forwarded. Rewrite may change the path, so
// for its routes only the Forwarder knows.
func (h *handler) maps(r *http.Request) bool {
	return h.path == (forward.Path{}) || h.route.Rewrite != nil || h.path.Maps(r)
}

// hostname returns the name in a Host.
func hostname(host string) string {
	return (&url.URL{Host: host}).Hostname()
}

// isHost reports whether text can be sent as Host: a name or an address, perhaps with a
// port.
func isHost(text string) bool {
	u, err := url.Parse("http://" + text)
	if err != nil || u.Host != text || strings.HasSuffix(text, ":") || strings.HasPrefix(text, "*") {
		return false
	}
	name := u.Hostname()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return route.ValidHost(strings.TrimSuffix(name, "."))
}

// validateTarget checks what changes the target and the Host of requests.
func (u Upstream) validateTarget(f *faults, at string) {
	f.Check(u.Host == "" || isHost(u.Host), at+".Host", quoted(u.Host), `"preserve", "server", or a host, perhaps with a port`)
	f.Check(u.BasePath == "" || isBase(u.BasePath), at+".BasePath", quoted(u.BasePath), "a path, escaped, without a slash at its end, a query and ..")
}

func (r Route) validateTarget(f *faults, at string) {
	if r.StripPrefix == "" {
		return
	}
	f.Check(isBase(r.StripPrefix), at+".StripPrefix", quoted(r.StripPrefix), "a path, escaped, without a slash at its end, a query and ..")
	f.Check(r.Rewrite == nil, at+".StripPrefix", quoted(r.StripPrefix), "empty where there is a Rewrite, which can do the same")
	_, within := forward.Path{Strip: r.StripPrefix}.Of(strings.TrimPrefix(r.Path, "="))
	f.Check(within, at+".StripPrefix", quoted(r.StripPrefix), "the path of the route, or a parent of it")
}

// isBase reports whether text can stand in front of a path.
func isBase(text string) bool {
	_, whole := forward.Path{Base: "/"}.Of(text) // without ".."
	return whole && route.ValidPath(text) && text[0] == '/' && !strings.HasSuffix(text, "/") && !strings.HasPrefix(text, "//")
}
