package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// echo responds with what it got, for the cache.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	fmt.Fprintf(w, "%s %s %s%s", r.Host, r.RequestURI, r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-Prefix"])
}

// H27: Host, base path and prefix change after the key is made, over both protocols.
func TestH27_HostAndPathOfTheUpstream(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		o := serving(t, "a", echo)
		for _, e := range []struct{ host, want string }{
			{"", "shop.test"}, {gateway.PreserveHost, "shop.test"}, {gateway.ServerHost, o.addr}, {"api.internal:8443", "api.internal:8443"},
		} {
			u := upstreamOf(o)
			u.Host, u.BasePath = e.host, "/v1"
			c := config(u)
			c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api", StripPrefix: "/api"})
			s := open(c)
			s.want("/x?y=%zz;z", 200, e.want+" /v1/x?y=%zz;z [shop.test][]", "Host", "shop.test")
			s.want("/api/x", 200, e.want+" /v1/x [shop.test][/api]", "Host", "shop.test")
			s.want("/api?q", 200, e.want+" /v1/?q [shop.test][/api]", "Host", "shop.test")
			s.want("/apix", 200, e.want+" /v1/apix [shop.test][]", "Host", "shop.test")
			// /x and /api/x have separate entries, under the Host and the URL that
			// clients use, although the origin got the same request for both.
			calls := o.calls.Load()
			s.want("/api/x", 200, e.want+" /v1/x [shop.test][/api]", "Host", "shop.test")
			s.want("/x?y=%zz;z", 200, e.want, "Host", "shop.test")
			if n := o.calls.Load(); n != calls {
				t.Errorf("host %q: %d calls more; want hits", e.host, n-calls)
			}
			s.want("/api/x", 200, strings.ReplaceAll(e.want, "shop", "other")+" /v1/x [other.test]", "Host", "other.test")
			if n := o.calls.Load(); n != calls+1 {
				t.Errorf("host %q: a client's other Host got the entry of the first", e.host)
			}
			if n, err := s.g.Cache().Invalidate(t.Context(), scheme(s), "shop.test", "/api/x"); n != 1 || err != nil {
				t.Errorf("host %q: Invalidate(/api/x) = %d, %v; want 1, by the URL of the clients", e.host, n, err)
			}
		}
	})
}

func scheme(s *site) string {
	name, _, _ := strings.Cut(s.url, ":")
	return name
}

// H9 with H27: whatever the path, equal keys give equal upstream requests, and no
// spelling leaves the base path or reaches a path outside the prefix.
func TestH27_NoSpellingLeavesTheBasePath(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
		u := upstreamOf(o)
		u.BasePath = "/public"
		c := config(u)
		c.Routes = append(c.Routes, gateway.Route{Name: "api", Path: "/api", StripPrefix: "/api", PathMatch: gateway.MatchCaseless})
		s := open(c)
		for path, want := range map[string]string{
			"/api/x":                    "/public/x",
			"/API/X":                    "/public/X",
			"/%61pi/x%2Fy":              "/public/x%2Fy",
			"/api//x":                   "/public//x",
			"/api/..":                   "",
			"/api/../secret":            "",
			"/../secret":                "",
			"/x/%2e%2E/%2e./secret":     "",
			"/x%2f..%2f..%2fsecret":     "",
			"/x/..%5c..%5csecret":       "",
			"/x/..;/..;a=b/secret":      "",
			"//api/x":                   "", // for the route by PathMatch, but not under its prefix
			"/%2fapi/x":                 "",
			"/.../..x":                  "/public/.../..x",
			"/api/%252e%252e/x":         "/public/%252e%252e/x",
			"/api/x?../../y=..":         "/public/x?../../y=..",
			"/api/x?url=http://x/../..": "/public/x?url=http://x/../..",
		} {
			before := o.calls.Load()
			got := s.raw(path)
			if want == "" {
				if got.status != 400 || o.calls.Load() != before {
					t.Errorf("GET %s = %d %q after %d calls; want 400 and no call", path, got.status, got.body, o.calls.Load()-before)
				}
				continue
			}
			if got.status != 200 || got.body != want {
				t.Errorf("GET %s = %d %q; want 200 %q", path, got.status, got.body, want)
			}
		}
		r := httptest.NewRequest("GET", "http://h.test/api/../x", nil)
		if _, e := s.g.Explain(r); e.Answer != "error" {
			t.Errorf("Explain = %+v; want an error", e)
		}
	})
}

// What changes at an Update is in force for the next request, with another connection.
func TestH27_HostChangesWithAnUpdate(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, r.RequestURI) })
	u := upstreamOf(o)
	s := open(t, config(u))
	s.want("/x", 200, "h.test/x", "Host", "h.test")
	u.Host, u.BasePath = "b.test", "/b"
	s.update(config(u))
	s.want("/x", 200, "b.test/b/x", "Host", "h.test")
	u.Host, u.BasePath = gateway.ServerHost, ""
	s.update(config(u))
	s.want("/x", 200, o.addr+"/x", "Host", "h.test")
}

// Each server gets its own Host when a call moves on to the next one.
func TestH27_TheServersOwnHostOnEachTry(t *testing.T) {
	hosts := make(chan string, 10)
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			hosts <- r.Host
			w.WriteHeader(status)
		}
	}
	a, b := serving(t, "a", answer(503)), serving(t, "b", answer(503))
	u := upstreamOf(a, b)
	u.Host = gateway.ServerHost
	u.Retry = gateway.Retry{Attempts: 2, Budget: 100, Backoff: time.Millisecond}
	s := open(t, config(u))
	s.want("/", 503, "", "Host", "h.test")
	got := []string{<-hosts, <-hosts}
	slices.Sort(got)
	want := []string{a.addr, b.addr}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Hosts = %q; want %q, each server its own", got, want)
	}
}

// Health checks and probes use the same Host and base path.
func TestH27_HealthChecksUseHostAndBasePath(t *testing.T) {
	var once atomic.Pointer[sync.Once]
	asked := make(chan string, 1)
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		once.Load().Do(func() { asked <- r.Host + " " + r.RequestURI })
	})
	for host, want := range map[string]string{"": o.addr, gateway.ServerHost: o.addr, "api.internal": "api.internal"} {
		once.Store(new(sync.Once))
		u := upstreamOf(o)
		u.Host, u.BasePath, u.Health = host, "/v1", gateway.Health{Path: "/health?deep", Interval: time.Hour}
		s := open(t, config(u))
		if got := <-asked; got != want+" /v1/health?deep" {
			t.Errorf("host %q: the check asked for %q; want %q", host, got, want+" /v1/health?deep")
		}
		_ = s
		once.Store(new(sync.Once))
		if p := u.Probe(t.Context()); !p[0].Healthy || p[0].Asked != "GET /v1/health?deep" {
			t.Errorf("host %q: Probe = %+v", host, p)
		}
		if got := <-asked; got != want+" /v1/health?deep" {
			t.Errorf("host %q: the probe asked for %q", host, got)
		}
	}
}

// A literal Host is the name in the handshake, unless TLS names another.
func TestH27_ServerNameFollowsHost(t *testing.T) {
	var names sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names.Store("sni", h.ServerName)
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate()) // for example.com and 127.0.0.1
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		host, name, sni, want string
		status                int
	}{
		{"", "", "", "h.test", 200},
		{gateway.ServerHost, "", "", u.Host, 200},
		{"example.com:8443", "", "example.com", "example.com:8443", 200},
		{"stranger.test", "", "stranger.test", "", 502},
		{"stranger.test", "example.com", "example.com", "stranger.test", 200},
	} {
		names.Clear()
		s := open(t, config(gateway.Upstream{
			Name: "main", Servers: []string{server.URL}, Host: e.host, TLS: &tls.Config{RootCAs: roots, ServerName: e.name},
		}))
		s.want("/", e.status, e.want, "Host", "h.test")
		if got, _ := names.Load("sni"); got != e.sni {
			t.Errorf("host %q, TLS name %q: the handshake named %q; want %q", e.host, e.name, got, e.sni)
		}
	}
}

func TestH27_Validate(t *testing.T) {
	for _, e := range []struct {
		change func(*gateway.Config)
		field  string // of the fault, empty for none
	}{
		{func(c *gateway.Config) { c.Upstreams[0].Host = "[::1]:80" }, ""},
		{func(c *gateway.Config) { c.Upstreams[0].Host = "a b" }, "Upstreams[0].Host"},
		{func(c *gateway.Config) { c.Upstreams[0].Host = "http://a" }, "Upstreams[0].Host"},
		{func(c *gateway.Config) { c.Upstreams[0].Host = "a:" }, "Upstreams[0].Host"},
		{func(c *gateway.Config) { c.Upstreams[0].Host = "*.a" }, "Upstreams[0].Host"},
		{func(c *gateway.Config) { c.Upstreams[0].Host = "a/x" }, "Upstreams[0].Host"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "/a/b" }, ""},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "/" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "a" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "/a/" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "/a/../b" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "/a?b" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Upstreams[0].BasePath = "=/a" }, "Upstreams[0].BasePath"},
		{func(c *gateway.Config) { c.Routes[0].StripPrefix = "/a" }, "Routes[0].StripPrefix"},
		{func(c *gateway.Config) { c.Routes[0].Path, c.Routes[0].StripPrefix = "/a/b", "/a" }, ""},
		{func(c *gateway.Config) { c.Routes[0].Path, c.Routes[0].StripPrefix = "=/a", "/a" }, ""},
		{func(c *gateway.Config) { c.Routes[0].Path, c.Routes[0].StripPrefix = "/ab", "/a" }, "Routes[0].StripPrefix"},
		{func(c *gateway.Config) {
			c.Routes[0].Path, c.Routes[0].StripPrefix, c.Routes[0].Rewrite = "/a", "/a", func(*http.Request) {}
		}, "Routes[0].StripPrefix"},
	} {
		c := config(gateway.Upstream{Name: "main", Servers: []string{"http://127.0.0.1:1"}})
		e.change(&c)
		err := c.Validate()
		if (err == nil) != (e.field == "") || err != nil && !strings.Contains(err.Error(), e.field) {
			t.Errorf("%+v: Validate = %v; want a fault of %q", c.Routes[0], err, e.field)
		}
	}
}
