package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// NeedsToken reports whether a listener on address (host:port) can be reached
// from elsewhere, so that it has to have a token. A name counts as elsewhere,
// apart from localhost.
func NeedsToken(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	if host == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsLoopback()
}

// A guard lets requests in.
type guard struct {
	token [sha256.Size]byte // of the token; hashes have one length, so that it is no secret either
	asks  bool              // there is a token
	hosts map[string]bool
	cross http.CrossOriginProtection
}

func newGuard(token string, hosts []string) *guard {
	g := &guard{token: sha256.Sum256([]byte(token)), asks: token != "", hosts: map[string]bool{"localhost": true}}
	for _, h := range hosts {
		g.hosts[bare(h)] = true
	}
	return g
}

// protect is next behind the guard. open says that no token is needed.
func (g *guard) protect(next http.Handler, open func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case !g.known(r):
			fail(w, http.StatusForbidden, "unknown Host: add it to the admin listener's hosts")
		case !open(r) && !g.permitted(r):
			h.Set("WWW-Authenticate", `Bearer realm="weir admin"`)
			fail(w, http.StatusUnauthorized, "the admin listener wants its token: Authorization: Bearer TOKEN")
		case g.cross.Check(r) != nil:
			fail(w, http.StatusForbidden, "a request from another site's page")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// permitted checks the token, in a time that tells nothing about it.
func (g *guard) permitted(r *http.Request) bool {
	if !g.asks {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// known reports whether the Host is one of ours: a name that was given, a
// loopback address, or the address that the connection came to. Other
// addresses are no danger of rebinding, but no host of ours either.
func (g *guard) known(r *http.Request) bool {
	host := bare(r.Host)
	if g.hosts[host] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap().WithZone("") == addr
}

// bare is a host without port, brackets and the root's dot, in lower case.
func bare(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
