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

// LongToken is how many bytes a token has at least that nobody finds by trying, if
// it was drawn at random: see Access.Token.
const LongToken = 16

// Access says who may come in: a loopback listener needs nothing more, any other
// a Token.
type Access struct {
	// Token has to be sent by every client, as Authorization: Bearer, or once to the
	// login, which sets a cookie. Empty means that none is needed, and that only
	// connections over loopback are answered.
	//
	// Draw it at random, of LongToken bytes or more: then it admits every request that has it,
	// whatever else comes from the same address. A shorter one might be guessed, so
	// after a hundred wrong ones an address is refused for a while, also with the
	// right one.
	Token string
	// Hosts are the names that clients call the listener by, beside its address
	// and localhost. Any other Host is refused.
	Hosts []string
	// Open says that a request needs no token, such as a probe's. nil means none.
	Open func(*http.Request) bool
	// Base is the path of the console, where browsers are sent to log in: "/" if
	// it is empty.
	Base string
	// Sessions remembers who has logged in. An Access that takes the place of
	// another, as at a reload, goes on with its Sessions; with another Token they
	// end with the first request that it answers. nil means that it has its own.
	Sessions *Sessions
	// Logger logs logins. nil means slog.Default.
	Logger *slog.Logger
}

// Protect returns next behind a. The login is answered here. Its cookie is sent
// to all that the listener has.
func (a Access) Protect(next http.Handler) http.Handler { return a.protect(next, everywhere) }

// A reach is to which paths browsers send the cookie.
type reach bool

const (
	everywhere reach = true
	nearby     reach = false // where the login is, whose path nobody here knows
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

// A gate lets requests in.
type gate struct {
	next     http.Handler
	token    [sha256.Size]byte // of the token; hashes have one length, so that it is no secret either
	asks     bool              // there is a token
	long     bool              // it has LongToken bytes
	hosts    map[string]bool
	open     func(*http.Request) bool
	base     string // begins and ends with a slash
	reach    reach
	sessions *Sessions
	turn     uint64 // of those that have shared sessions
	logger   *slog.Logger
	page     *page
	cross    http.CrossOriginProtection
}

// ServeHTTP lets a request in, in these steps:
//
//  1. Its Host is ours, its connection comes from where it may, and no other
//     site's page has sent it.
//  2. Where there is a token, the login and what that needs are answered.
//  3. It has the token, or the cookie of a session, or needs neither.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	switch {
	case !g.known(r):
		fail(w, http.StatusForbidden, "unknown Host: want an address of the listener, localhost, or one of its hosts")
	case !g.asks && !overLoopback(r):
		fail(w, http.StatusForbidden, "without a token, only connections over loopback are answered")
	case g.foreign(r):
		fail(w, http.StatusForbidden, "a request from another site's page")
	case g.answered(w, r):
	case !g.asks, g.open != nil && g.open(r):
		g.next.ServeHTTP(w, r)
	default:
		g.check(w, r)
	}
}

// harden sets what browsers are to keep to.
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

// check lets in who has the token or a session.
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
		defer context.AfterFunc(s, cancel)() // what still runs, such as a stream, ends with it
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

// loginKey marks the context of requests that came in by a session.
type loginKey struct{}

// byLogin reports whether r came in by a session.
func byLogin(r *http.Request) bool {
	in, _ := r.Context().Value(loginKey{}).(bool)
	return in
}

// isToken compares, in a time that tells nothing about the token.
func (g *gate) isToken(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// bearer returns the token that r sends, if it sends one.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	fail(w, http.StatusUnauthorized, "the token is wanted: Authorization: Bearer TOKEN, or a login")
}

// tooMany answers who has tried too often.
func tooMany(w http.ResponseWriter, wait time.Duration) {
	retryAfter(w, wait)
	fail(w, http.StatusTooManyRequests, "too many wrong tokens: try again later")
}

// wantsPage reports whether r is of a browser that goes somewhere.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// foreign reports whether another site's page has sent r. A page may link to us,
// which brings no cookie; it may not ask in any other way, whatever the method,
// though it could not read the answer: it would hold a stream open.
func (g *gate) foreign(r *http.Request) bool {
	if g.cross.Check(r) != nil {
		return true
	}
	if wantsPage(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	as := at(r, r.URL.Path, r.URL.RawPath)
	as.Method = http.MethodPost
	return g.cross.Check(as) != nil
}

// known reports whether the Host is one of ours: a name that was given, a
// loopback address, or the address that the connection came to. A page can make a
// browser send requests to any address under the page's own name (DNS rebinding);
// other addresses are no danger of that, but no host of ours either.
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

// overLoopback reports whether r came over a connection that nobody else's machine
// can make: to a loopback address, or not over a network. Nothing is known of one
// without an address: it may have come through FastCGI, from anywhere.
func overLoopback(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && (a.Network() == "unix" || a.Network() == "pipe") {
		return true
	}
	addr, ok := localAddr(r)
	return ok && addr.IsLoopback()
}

// localAddr returns the address that the connection of r came to.
func localAddr(r *http.Request) (netip.Addr, bool) {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}, false
	}
	to, err := netip.ParseAddrPort(a.String())
	return to.Addr().Unmap().WithZone(""), err == nil
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
