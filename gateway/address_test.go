package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/gateway"
)

func prefixes(list ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, s := range list {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func TestClientAddr(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "2001:db8:1::/48")
	for _, c := range []struct {
		peer string
		xff  []string
		want string
	}{
		{"192.0.2.1:1", nil, "192.0.2.1"},
		{"192.0.2.1:1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"1.1.1.1, 198.51.100.1 ,10.0.0.2"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"1.1.1.1", "198.51.100.1", "10.0.0.2,\t10.0.0.3"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"10.0.0.1:1", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1", []string{"198.51.100.1,"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"198.51.100.1", ""}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"[2001:db8:2::1]:4711"}, "2001:db8:2::1"},
		{"10.0.0.1:1", []string{"[2001:db8:2::1], 2001:db8:1::7"}, "2001:db8:2::1"},
		{"10.0.0.1:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"[2001:db8:1::9]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.0.0.1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"[fe80::1%eth0]:1", nil, "fe80::1"},
		{"@", []string{"198.51.100.1"}, "invalid IP"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.xff
		if got := gateway.ClientAddr(r, trusted).String(); got != c.want {
			t.Errorf("ClientAddr(%s, %q) = %s; want %s", c.peer, c.xff, got, c.want)
		}
		if got, want := gateway.ClientAddr(r, nil), gateway.ClientAddr(&http.Request{RemoteAddr: c.peer}, trusted); got != want {
			t.Errorf("ClientAddr(%s, %q) = %s with nobody trusted; want %s", c.peer, c.xff, got, want)
		}
	}
}

// Nobody can make the gateway take an address that no trusted proxy wrote:
// whatever a client sends, what the proxy adds after it counts.
func FuzzClientAddr(f *testing.F) {
	f.Add("1.2.3.4")
	f.Add("10.0.0.1, ")
	f.Add("[::1]:,,;\"")
	trusted := prefixes("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, sent string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {sent + ", 192.0.2.1"}}}
		if got := gateway.ClientAddr(r, trusted).String(); got != "192.0.2.1" {
			t.Errorf("ClientAddr(%q) = %s; want 192.0.2.1", r.Header, got)
		}
		r = &http.Request{RemoteAddr: "192.0.2.1:1", Header: http.Header{"X-Forwarded-For": {sent}}}
		if got := gateway.ClientAddr(r, trusted).String(); got != "192.0.2.1" {
			t.Errorf("ClientAddr(%q) = %s; want the connection's", r.Header, got)
		}
	})
}
