package gateway

import (
	"net/http"
	"net/netip"
	"strings"
)

// ClientAddr returns the address of the client that sent r: the address of the connection
// or, if that is a trusted proxy, the last address in X-Forwarded-For that is not one.
// Addresses before that one were written by untrusted parties and are ignored. If the field
// ends or cannot be parsed first, ClientAddr returns the last trusted address it read. It
// returns the zero Addr for a connection without an address, such as a Unix socket.
//
// An IPv4 address in IPv6 comes out as IPv4, and no address has a zone.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr := peer(r)
	if len(trusted) == 0 {
		return addr
	}
	lines := r.Header["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; rest != ""; {
			if !contains(trusted, addr) {
				return addr
			}
			var last string
			if j := strings.LastIndexByte(rest, ','); j >= 0 {
				rest, last = rest[:j], rest[j+1:]
			} else {
				rest, last = "", rest
			}
			next, ok := parseHop(strings.Trim(last, " \t"))
			if !ok {
				return addr
			}
			addr = next
		}
	}
	return addr
}

// peer returns the address of r's connection.
func peer(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// parseHop parses an element of X-Forwarded-For: an address, in brackets or not,
// with a port or not.
func parseHop(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			a, err = netip.ParseAddr(s[1 : len(s)-1])
		} else {
			var ap netip.AddrPort
			ap, err = netip.ParseAddrPort(s)
			a = ap.Addr()
		}
	}
	return a.Unmap().WithZone(""), err == nil
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// trust is the set of trusted proxies.
type trust []netip.Prefix

// peer reports whether r comes from a trusted proxy.
func (t trust) peer(r *http.Request) bool { return len(t) > 0 && contains(t, peer(r)) }

// client is a weirhttp.Client.
func (t trust) client(r *http.Request) netip.Addr { return ClientAddr(r, t) }

// scheme returns the scheme that the client used. If there are several X-Forwarded-Proto
// fields, the last one counts: the proxy in front of us wrote it.
func (t trust) scheme(r *http.Request) string {
	if lines := r.Header["X-Forwarded-Proto"]; len(lines) > 0 && t.peer(r) {
		last := lines[len(lines)-1]
		last = strings.Trim(last[strings.LastIndexByte(last, ',')+1:], " \t")
		switch {
		case strings.EqualFold(last, "https"):
			return "https"
		case strings.EqualFold(last, "http"):
			return "http"
		}
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
