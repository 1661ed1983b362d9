package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weir-go/weir/plain"
)

// LongToken is the minimum length, in bytes, of a random token that cannot be found
// by guessing: see Access.Token.
const LongToken = 16

// Access decides which requests to accept: a loopback listener needs nothing more,
// any other needs a Token.
type Access struct {
	// Token must be sent by every client, as Authorization: Bearer, or once to the
	// login, which sets a cookie. Empty means that no token is needed, and that only
	// connections over loopback are accepted.
	//
	// Use a random token of LongToken bytes or more. A shorter token might be guessed, so
	// an address that has sent a hundred wrong ones is rejected for a while, even with
	// the right one. A token of LongToken bytes is accepted even from such an address.
	Token string
	// Hosts are the names by which clients reach the listener, in addition to its
	// address and localhost. Any other Host is rejected.
	Hosts []string
	// Open reports whether a request needs no token, such as a probe's. nil means
	// none.
	Open func(*http.Request) bool
	// Base is the path of the console, where browsers are redirected to log in; "/"
	// if it is empty.
	Base string
	// Sessions holds the logged-in sessions. An Access that replaces another, as in a
	// reload, continues with its Sessions; with a different Token they end at the
	// first request that it serves. nil means new Sessions.
	Sessions *Sessions
	// Logger logs logins. nil means slog.Default.
	Logger *slog.Logger
}

// Protect returns next behind a. It serves the login itself. Browsers send the
// login's cookie to all paths of the listener.
func (a Access) Protect(next http.Handler) http.Handler { return a.protect(next, everywhere) }

// A reach is the set of paths to which browsers send the cookie.
type reach bool

const (
	everywhere reach = true
	nearby     reach = false // the folder of the login, whose full path is not known here
)

func (a Access) protect(next http.Handler, to reach) http.Handler {
	g := &gate{
		next:     next,
		token:    sha256.Sum256([]byte(a.Token)),
		asks:     a.Token != "",
		long:     len(a.Token) >= LongToken,
		hosts:    map[string]bool{"localhost": true},
		open:     a.Open,
		base:     "/" + strings.Trim(a.Base, "/") + "/",
		reach:    to,
		sessions: a.Sessions,
		logger:   a.Logger,
		page:     built(),
	}
	if g.base == "//" {
		g.base = "/"
	}
	if g.sessions == nil {
		g.sessions = NewSessions()
	}
	g.logger = plain.Logger(g.logger)
	g.turn = g.sessions.turn()
	for _, h := range a.Hosts {
		g.hosts[bare(h)] = true
	}
	return g
}

// A gate decides whether to accept a request.
type gate struct {
	next     http.Handler
	token    [sha256.Size]byte // hash of the token; its fixed length hides the token's length
	asks     bool              // there is a token
	long     bool              // it has LongToken bytes
	hosts    map[string]bool
	open     func(*http.Request) bool
	base     string // begins and ends with a slash
	reach    reach
	sessions *Sessions
	turn     uint64 // number of this Access among those that have shared sessions
	logger   *slog.Logger
	page     *page
	cross    http.CrossOriginProtection
}

// ServeHTTP accepts a request in these steps:
//
//  1. Its Host is known, its connection is over loopback or a token is configured, and
//     no other site's page has sent it.
//  2. With a token, the login and its files are served.
//  3. It has the token, or a session's cookie, or needs neither.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	switch {
	case !g.known(r):
		fail(w, http.StatusForbidden, "unknown Host: want an address of the listener, localhost, or one of its hosts")
	case !g.asks && !overLoopback(r):
		fail(w, http.StatusForbidden, "only connections over loopback are accepted, because no token is configured")
	case g.foreign(r):
		fail(w, http.StatusForbidden, "requests from another site's page are rejected")
	case g.answered(w, r):
	case !g.asks, g.open != nil && g.open(r):
		g.next.ServeHTTP(w, r)
	default:
		g.check(w, r)
	}
}

// harden sets security headers for browsers.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// check accepts requests with the token or a session.
func (g *gate) check(w http.ResponseWriter, r *http.Request) {
	if given := bearer(r); given != "" {
		wait, ok := g.sessions.try(r, g.long, func() bool { return g.isToken(given) })
		switch {
		case wait > 0:
			tooMany(w, wait)
		case !ok:
			unauthorized(w)
		default:
			g.next.ServeHTTP(w, r)
		}
		return
	}
	if s := g.session(r); s != nil {
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), loginKey{}, true))
		defer cancel()
		defer context.AfterFunc(s, cancel)() // streams end with the session
		g.next.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	if wantsPage(r) {
		w.Header().Set("Location", from(r.URL.EscapedPath(), g.base+"login"))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	unauthorized(w)
}

// loginKey marks the context of requests with a session.
type loginKey struct{}

// byLogin reports whether r has a session.
func byLogin(r *http.Request) bool {
	in, _ := r.Context().Value(loginKey{}).(bool)
	return in
}

// isToken compares in constant time, so that the duration reveals nothing about the
// token.
func (g *gate) isToken(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// bearer returns the token of r, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	fail(w, http.StatusUnauthorized, "a token is required: send Authorization: Bearer TOKEN, or log in")
}

// tooMany rejects a client that has sent too many wrong tokens.
func tooMany(w http.ResponseWriter, wait time.Duration) {
	retryAfter(w, wait)
	fail(w, http.StatusTooManyRequests, "too many wrong tokens: try again later")
}

// wantsPage reports whether r is a navigation of a browser.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// foreign reports whether another site's page has sent r. A page can link to where the
// console begins, which sends no cookie. Every other request is rejected, whatever its
// method: the page could not read the response, but it could hold a stream open, or take a
// profile.
func (g *gate) foreign(r *http.Request) bool {
	if g.cross.Check(r) != nil {
		return true
	}
	if wantsPage(r) && g.begins(r.URL.Path) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	as := at(r, r.URL.Path, r.URL.RawPath)
	as.Method = http.MethodPost
	return g.cross.Check(as) != nil
}

// begins reports whether a path is where a visit begins: the first page, what redirects to
// it, and the login to which that redirects.
func (g *gate) begins(path string) bool {
	return path == "/" || path == g.base || path+"/" == g.base || path == g.base+"login"
}

// known reports whether the Host is accepted: a configured name, a loopback address,
// or the address to which the client connected. A page can make a browser send
// requests to any address under the page's own name (DNS rebinding). Other IP
// addresses do not allow that, but they are not this listener's either.
func (g *gate) known(r *http.Request) bool {
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
	local, ok := localAddr(r)
	return ok && local == addr
}

// overLoopback reports whether r came over a connection that no other machine can
// make: to a loopback address, or not over a network. A connection without an address
// is not accepted: it may have come through FastCGI, from anywhere.
func overLoopback(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && (a.Network() == "unix" || a.Network() == "pipe") {
		return true
	}
	addr, ok := localAddr(r)
	return ok && addr.IsLoopback()
}

// localAddr returns the address to which the client connected.
func localAddr(r *http.Request) (netip.Addr, bool) {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}, false
	}
	to, err := netip.ParseAddrPort(a.String())
	return to.Addr().Unmap().WithZone(""), err == nil
}

// bare returns a host without port, brackets and the final dot, in lower case.
func bare(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// NeedsToken reports whether a listener on address (host:port) can be reached from
// other machines, and so needs a token. Every name except localhost counts as such.
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
