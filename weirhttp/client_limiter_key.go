package weirhttp

import (
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/limit"
)

// ByAddress keys clients by their address, and IPv6 clients by their /64, because one
// client usually has all of it. An IPv4 address mapped to IPv6 counts as the IPv4
// address, and zones are ignored. client returns the address; nil means that of the
// connection. Behind a proxy that is the proxy's address, and all clients would share
// one rate: set a Client in that case. Without an address (a Unix socket, an invalid
// address) the key is empty.
func ByAddress(client Client) func(*http.Request) string {
	if client == nil {
		client = connAddr
	}
	return func(r *http.Request) string { return addressKey(client(r).Unmap()) }
}

// addressKey returns the key of the client with address a.
func addressKey(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return ""
	case a.Is4():
		return a.String()
	}
	p, _ := a.Prefix(64) // without the zone; never fails for an IPv6 address
	return p.String()
}

// TenantByAddress is for Options.Tenant: each client, as [ByAddress] distinguishes them, is
// a tenant. Those of an IPv6 /48 are a group, because one client can have all of it.
func TenantByAddress(client Client) func(*http.Request) limit.Tenant {
	if client == nil {
		client = connAddr
	}
	return func(r *http.Request) limit.Tenant {
		a := client(r).Unmap()
		t := limit.Tenant{Name: addressKey(a)}
		if a.Is6() {
			p, _ := a.Prefix(48) // never fails for an IPv6 address
			t.Within = p.String()
		}
		return t
	}
}

// connAddr is the Client that returns the address of the connection.
func connAddr(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr()
	}
	a, _ := netip.ParseAddr(r.RemoteAddr) // as middleware may have left it
	return a
}

// ByHeader keys clients by the value of a header field. For clients without the field, it
// calls otherwise; nil means that they are admitted. A field with several lines counts as
// missing, because a client may have added lines to those of a proxy. A key of ByHeader never equals one of
// [ByAddress].
//
// A client can make up values, and get a new rate with each of them. So use ByHeader
// only for a field that was checked before, such as the user name that a proxy has
// set.
func ByHeader(name string, otherwise func(*http.Request) string) func(*http.Request) string {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string {
		if v := r.Header[name]; len(v) == 1 && v[0] != "" {
			// No address contains a space. Without the prefix, a client could use up
			// the rate of another by sending that client's address here.
			return name + ": " + v[0]
		}
		if otherwise == nil {
			return ""
		}
		return otherwise(r)
	}
}
