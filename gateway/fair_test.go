package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
)

// served lets clients queue in the given order, each with the path of its index, at an
// upstream that serves one call at a time, and returns the order in which they were served.
func served(t *testing.T, set func(*gateway.Config), clients []func(*http.Request)) (order []string) {
	t.Helper()
	var mu sync.Mutex
	next := make(chan struct{})
	o := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, strings.TrimPrefix(r.URL.Path, "/"))
		mu.Unlock()
		<-next
	})
	u := upstreamOf(o)
	u.Concurrency = 1
	c := config(u)
	set(&c)
	s := open(t, c)
	var group sync.WaitGroup
	for i, client := range clients {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://shop.example/%d", i), nil)
		client(r)
		group.Go(func() { s.g.ServeHTTP(httptest.NewRecorder(), r) })
		s.until("it waits", func() bool {
			st := s.g.Stats().Upstreams["main"].Limit
			mu.Lock()
			defer mu.Unlock()
			return st.InUse == 1 && st.Queued == i && len(order) == 1
		})
	}
	for range clients {
		next <- struct{}{}
	}
	group.Wait()
	return order
}

// from returns a client with that address of its connection, which sends these fields.
func from(addr string, fields ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(addr), 1234).String()
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
	}
}

// H42: by default, a client with many requests in the queue does not make another wait for
// them, and neither addresses in one network nor forged fields change that.
func TestH42_ClientsShareFairly(t *testing.T) {
	none := func(*gateway.Config) {}
	for _, tt := range []struct {
		name   string
		set    func(*gateway.Config)
		crowd  func(i int) func(*http.Request)
		last   func(*http.Request)
		before int // how many of the crowd are served before the last client
	}{
		{"one address", none, func(int) func(*http.Request) { return from("192.0.2.1") }, from("192.0.2.2"), 2},
		{"mapped to IPv6", none, func(i int) func(*http.Request) {
			return from([]string{"192.0.2.1", "::ffff:192.0.2.1"}[i%2])
		}, from("192.0.2.2"), 2},
		{"one /64", none, func(i int) func(*http.Request) { return from(fmt.Sprintf("2001:db8::%x", i+1)) }, from("2001:db8:1::1"), 2},
		{"one /48", none, func(i int) func(*http.Request) { return from(fmt.Sprintf("2001:db8:0:%x::1", i)) }, from("2001:db8:1::1"), 2},
		{"forged X-Forwarded-For", none, func(i int) func(*http.Request) {
			return from("192.0.2.1", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
		}, from("192.0.2.2"), 2},
		{"behind a trusted proxy", func(c *gateway.Config) {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, func(i int) func(*http.Request) {
			return from("192.0.2.1", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 203.0.113.1", i))
		}, from("192.0.2.1", "X-Forwarded-For", "203.0.113.2"), 2},
		{"behind a trusted proxy, without fields", func(c *gateway.Config) {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			c.Routes[0].Cache.IgnoreHeaders = []string{"*"}
		}, func(i int) func(*http.Request) {
			return from("192.0.2.1", "X-Forwarded-For", "203.0.113.1")
		}, from("192.0.2.1", "X-Forwarded-For", "203.0.113.2"), 2},
		{"the same, not shared", func(c *gateway.Config) {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			c.Routes[0].Cache.IgnoreHeaders = []string{"*"}
			c.Routes[0].Coalesce = gateway.CoalesceNone
		}, func(i int) func(*http.Request) {
			return from("192.0.2.1", "X-Forwarded-For", "203.0.113.1")
		}, from("192.0.2.1", "X-Forwarded-For", "203.0.113.2"), 2},
		{"none", func(c *gateway.Config) { c.Upstreams[0].Fair = gateway.FairNone },
			func(int) func(*http.Request) { return from("192.0.2.1") }, from("192.0.2.2"), 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var clients []func(*http.Request)
			for i := range 10 {
				clients = append(clients, tt.crowd(i))
			}
			order := served(t, tt.set, append(clients, tt.last))
			if at := slices.Index(order, "10"); at < 1 || at > tt.before || tt.before == len(clients) && at != tt.before {
				t.Errorf("served in the order %v; want request 10 at position %d or before", order, tt.before)
			}
		})
	}
}

// H42: the class of a route stands above the clients.
func TestH42_RoutesStandAboveClients(t *testing.T) {
	order := served(t, func(c *gateway.Config) {
		high := c.Routes[0]
		high.Name, high.Path, high.Priority = "high", "/3", limit.High
		c.Routes = append([]gateway.Route{high}, c.Routes...)
	}, []func(*http.Request){from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.2"), from("192.0.2.1")})
	if order[1] != "3" {
		t.Errorf("served in the order %v; want 3, of the route with the higher priority, first in the queue", order)
	}
}
