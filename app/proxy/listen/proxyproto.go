package listen

import (
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxied reads the PROXY protocol (version 1 or 2) from the peers in trusted, which
// have to send it. It is not accepted from other peers: all their bytes are read as a
// request, and a PROXY header is not a valid one.
func proxied(l net.Listener, trusted []netip.Prefix, timeout time.Duration) net.Listener {
	return &proxyproto.Listener{
		Listener:          l,
		ReadHeaderTimeout: timeout,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if within(o.Upstream, trusted) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
		ValidateHeader: addressed,
	}
}

// addressed treats a connection from a client without an IP address, such as one on the
// trusted peer's Unix socket, as a connection of that peer itself. The path of such a
// socket is chosen by the client and is not an address that a limit could use.
func addressed(h *proxyproto.Header) error {
	if _, unix := h.SourceAddr.(*net.UnixAddr); unix {
		h.Command = proxyproto.LOCAL
	}
	return nil
}

// within reports whether an address is in one of the prefixes.
func within(a net.Addr, prefixes []netip.Prefix) bool {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := t.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
