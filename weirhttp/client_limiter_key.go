package weirhttp

import (
	"net/http"
	"net/netip"
)

// ByAddress keys clients by their address, IPv6 by its /64, of which one client
// has all. An IPv4 address that is mapped to IPv6 is the IPv4 address, and a
// zone does not count. client tells the address, nil means the connection's.
// Behind a proxy that is the proxy's, so that all would share one rate: give a
// Client then. Where there is no address (a Unix socket, an invalid one) the key
// is empty.
func ByAddress(client Client) func(*http.Request) string {
	if client == nil {
		client = connAddr
	}
	return func(r *http.Request) string {
		a := client(r).Unmap()
		switch {
		case !a.IsValid():
			return ""
		case a.Is4():
			return a.String()
		}
		p, _ := a.Prefix(64) // without the zone; fails for no IPv6 address
		return p.String()
	}
}

// connAddr is the Client that tells the connection's address.
func connAddr(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return ap.Addr()
	}
	a, _ := netip.ParseAddr(r.RemoteAddr) // as middleware may have left it
	return a
}

// ByHeader keys clients by the value of a header, and those without it by
// otherwise (nil: they are let in). Where there are several values, the first
// counts. A key of it is never the same as one of [ByAddress].
//
// Anybody can make up a value, and with each get a rate of its own: use it only
// for what was checked before, such as the name of a user that a proxy has set.
func ByHeader(name string, otherwise func(*http.Request) string) func(*http.Request) string {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string {
		if v := r.Header.Get(name); v != "" {
			// No address has a space in it. Without the prefix, a client could
			// use up the rate of another by sending that one's address here.
			return name + ": " + v
		}
		if otherwise == nil {
			return ""
		}
		return otherwise(r)
	}
}
