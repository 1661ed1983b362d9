package gateway_test

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// faultsOf returns the fields of all faults that err joins.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var list []string
		for _, e := range j.Unwrap() {
			list = append(list, faultsOf(t, e)...)
		}
		return list
	}
	var o *gateway.OptionError
	if !errors.As(err, &o) {
		t.Fatalf("error %v is no *OptionError", err)
	}
	if o.Bound == "" || !strings.HasPrefix(err.Error(), "gateway: "+o.Field+" is ") {
		t.Errorf("error %q; want the field, the value and the bound", err)
	}
	return []string{o.Field}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*gateway.Config)
		want   []string
	}{
		{"valid", func(*gateway.Config) {}, nil},
		{"no routes", func(c *gateway.Config) { c.Routes = nil }, nil},
		{"top", func(c *gateway.Config) {
			c.Name, c.MaxDrain, c.TrustedProxies = "we ir", -1, []netip.Prefix{{}}
		}, []string{"Name", "MaxDrain", "TrustedProxies[0]"}},
		{"no upstream", func(c *gateway.Config) { c.Upstreams = nil }, []string{"Upstreams", "Routes[0].Upstream"}},
		{"names", func(c *gateway.Config) {
			c.Upstreams = append(c.Upstreams, c.Upstreams[0], gateway.Upstream{Servers: []string{"http://a"}})
			c.Routes = append(c.Routes, c.Routes[0], gateway.Route{Name: strings.Repeat("a", 65), Upstream: "nobody"})
		}, []string{"Upstreams[1].Name", "Upstreams[2].Name", "Routes[0].Upstream", "Routes[1].Name", "Routes[1].Upstream", "Routes[2].Name", "Routes[2].Upstream"}},
		{"no servers", func(c *gateway.Config) { c.Upstreams[0].Servers = nil }, []string{"Upstreams[0].Servers"}},
		{"servers", func(c *gateway.Config) {
			c.Upstreams[0].Servers = []string{
				"http://a", "https://b:1/", "h2c://[::1]:80", "", "a:80", "ftp://a", "http://", "http://u@a", "http://a/x",
				"http://a?q", "http://a#f", "http://a:0", "http://a:65536", "http://c:", "HTTP://A:80", "http://[::1]",
			}
		}, func() (want []string) {
			for i := 3; i < 16; i++ {
				want = append(want, "Upstreams[0].Servers["+string(rune('0' + i/10))[:i/10]+string(rune('0'+i%10))+"]")
			}
			return want
		}()},
		{"sockets", func(c *gateway.Config) {
			c.Upstreams[0].Servers = []string{"unix:/run/app.sock", "unix:/run/app.sock", "unix:run", "unix:", "unix:/", "unix:///run/a", "unix:/run/../a", "unix:/a b", "unix:/a?b", "unix:/" + strings.Repeat("a", 103)}
		}, []string{
			"Upstreams[0].Servers[1]", "Upstreams[0].Servers[2]", "Upstreams[0].Servers[3]", "Upstreams[0].Servers[4]", "Upstreams[0].Servers[5]",
			"Upstreams[0].Servers[6]", "Upstreams[0].Servers[7]", "Upstreams[0].Servers[8]", "Upstreams[0].Servers[9]",
		}},
		{"numbers of an upstream", func(c *gateway.Config) {
			u := &c.Upstreams[0]
			u.Concurrency, u.Queue, u.QueueWait, u.Streams = 1_000_001, 1_000_001, 25*time.Hour, -1
			u.ConnectTimeout, u.IdleConn, u.MaxIdleConns, u.MaxConnAge = -1, 25*time.Hour, -1, 25*time.Hour
			u.Health = gateway.Health{Path: "health", Interval: time.Millisecond, Timeout: -1, Healthy: -1, Unhealthy: -1, Failures: 1_000_001, Eject: -1}
			u.Retry = gateway.Retry{Attempts: 11, On: []int{503, 399, 600}, Methods: []string{"GET", "get", ""}, Budget: 101, Backoff: 2 * time.Minute}
		}, []string{
			"Upstreams[0].Concurrency", "Upstreams[0].Queue", "Upstreams[0].QueueWait", "Upstreams[0].Streams",
			"Upstreams[0].ConnectTimeout", "Upstreams[0].IdleConn", "Upstreams[0].MaxIdleConns", "Upstreams[0].MaxConnAge",
			"Upstreams[0].Health.Path", "Upstreams[0].Health.Interval", "Upstreams[0].Health.Timeout", "Upstreams[0].Health.Healthy",
			"Upstreams[0].Health.Unhealthy", "Upstreams[0].Health.Failures", "Upstreams[0].Health.Eject",
			"Upstreams[0].Retry.Attempts", "Upstreams[0].Retry.On[1]", "Upstreams[0].Retry.On[2]", "Upstreams[0].Retry.Methods[1]",
			"Upstreams[0].Retry.Methods[2]", "Upstreams[0].Retry.Budget", "Upstreams[0].Retry.Backoff",
		}},
		{"negative means something", func(c *gateway.Config) {
			c.Upstreams[0].Concurrency, c.Upstreams[0].Queue, c.Upstreams[0].Health.Failures = -1, -1, -1
			c.Routes[0].Queue, c.Routes[0].Timeout, c.Routes[0].IdleTimeout = -1, -1, -1
		}, nil},
		{"adaptive", func(c *gateway.Config) {
			c.Upstreams[0].Adaptive, c.Upstreams[0].Concurrency = true, -1
		}, []string{"Upstreams[0].Concurrency"}},
		{"what a route matches", func(c *gateway.Config) {
			c.Routes[0].Hosts = []string{"a.test", "*", "A.test", "a.test:80"}
			c.Routes[0].Path, c.Routes[0].Methods = "api", []string{"Get"}
		}, []string{"Routes[0].Hosts[1]", "Routes[0].Hosts[2]", "Routes[0].Hosts[3]", "Routes[0].Path", "Routes[0].Methods[0]"}},
		{"numbers of a route", func(c *gateway.Config) {
			r := &c.Routes[0]
			r.Concurrency, r.Queue, r.QueueWait, r.Timeout, r.IdleTimeout, r.MaxBody = -1, 1_000_001, 25*time.Hour, 25*time.Hour, 25*time.Hour, -1
			r.MaxObject, r.RefreshAhead, r.Cache.TTL, r.Cache.Heuristic, r.HotKeys = -1, 0.51, -1, 2, 10_001
		}, []string{
			"Routes[0].Concurrency", "Routes[0].Queue", "Routes[0].QueueWait", "Routes[0].Timeout", "Routes[0].IdleTimeout", "Routes[0].MaxBody",
			"Routes[0].Cache.TTL", "Routes[0].Cache.Heuristic", "Routes[0].MaxObject", "Routes[0].RefreshAhead", "Routes[0].HotKeys",
		}},
		{"rates", func(c *gateway.Config) {
			key := func(*http.Request) string { return "" }
			c.Routes[0].Rate, c.Routes[0].RateBy = &weirhttp.ClientLimiterOptions{Per: -1, Name: "x", Key: key}, "header:"
		}, []string{"Routes[0].RateBy", "Routes[0].Rate.Key", "Routes[0].Rate.Name", "Routes[0].Rate.Rate", "Routes[0].Rate.Per"}},
		{"a rate's client", func(c *gateway.Config) {
			c.Routes[0].Rate = &weirhttp.ClientLimiterOptions{Rate: 1, Client: func(*http.Request) netip.Addr { return netip.Addr{} }}
		}, []string{"Routes[0].Rate.Client"}},
		{"a rate's key without a rate", func(c *gateway.Config) { c.Routes[0].RateBy = "address" }, []string{"Routes[0].RateBy"}},
		{"fields", func(c *gateway.Config) {
			c.Routes[0].SetRequest = http.Header{"host": {"a"}}
			c.Routes[0].SetResponse = http.Header{"X-Good": {"a\tb", "a\nb"}}
			c.Routes[0].RemoveRequest = []string{"X-Good", "transfer-encoding", "a b"}
			c.Routes[0].RemoveResponse = []string{""}
		}, []string{
			`Routes[0].SetRequest["host"]`, `Routes[0].SetResponse["X-Good"]`, "Routes[0].RemoveRequest[1]", "Routes[0].RemoveRequest[2]",
			"Routes[0].RemoveResponse[0]",
		}},
	} {
		cfg := config(gateway.Upstream{Name: "main", Servers: []string{"http://127.0.0.1:1"}})
		c.change(&cfg)
		got := faultsOf(t, cfg.Validate())
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %q; want %q", c.name, got, c.want)
		}
		g, err := gateway.New(cfg)
		if fields := faultsOf(t, err); !slices.Equal(fields, c.want) {
			t.Errorf("%s: New has faults of %q; want %q", c.name, fields, c.want)
		}
		if err == nil {
			g.Close(t.Context())
		}
	}
}

// A password may hold anything; a fault does not show it.
func TestH21_FaultsHidePasswordsOfServers(t *testing.T) {
	for _, server := range []string{"redis://:se/cr@et@h:6379", "u:se/cret@h:6379", "http://u:secret@h"} {
		c := gateway.Config{Upstreams: []gateway.Upstream{{Name: "a", Servers: []string{server}}}}
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), "…@h") || strings.Contains(err.Error(), "se/") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Validate with server %q = %v; want a fault without its password", server, err)
		}
	}
}

// One type of error serves all packages: a program that knows the core's finds the
// gateway's too.
func TestH13_FaultsAreTheCoresOptionErrors(t *testing.T) {
	var fault *weir.OptionError
	if err := (gateway.Config{}).Validate(); !errors.As(err, &fault) || fault.Package != "gateway" {
		t.Errorf("Validate = %v; want a *weir.OptionError of package gateway", err)
	}
}
