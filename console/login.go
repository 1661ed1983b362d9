package console

import (
	"bytes"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
)

// answered answers what needs no token: the login, the logout, and the files
// of the login page. It reports whether r was for one of them.
func (g *gate) answered(w http.ResponseWriter, r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.Path, g.base)
	if !ok {
		return false
	}
	switch get := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case !g.asks && (name == "login" || name == "logout"):
		seeOther(w, "./") // no token is required
	case name == "login" && r.Method == http.MethodPost:
		g.login(w, r)
	case name == "login" && get && g.session(r) != nil:
		seeOther(w, "./")
	case name == "login" && get:
		g.form(w, http.StatusOK, "")
	case name == "logout" && r.Method == http.MethodPost:
		g.logout(w, r)
	case name == "login" || name == "logout":
		w.Header().Set("Allow", "POST")
		fail(w, http.StatusMethodNotAllowed, "want POST")
	case get && g.asks && (name == "assets/login.css" || name == "assets/icon.svg"):
		g.page.serve(w, r, strings.TrimPrefix(name, "assets/"))
	default:
		return false
	}
	return true
}

// login opens a session for who sends the token.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	token, ok := tokenIn(w, r)
	if !ok {
		return
	}
	wait, right := g.sessions.try(r, g.long, func() bool { return g.isToken(token) })
	switch {
	case wait > 0:
		if g.sessions.says(time.Now()) {
			g.logger.Warn("the console's login was tried too often", "client", r.RemoteAddr)
		}
		g.turnedAway(w, r, wait)
		return
	case !right:
		g.logger.Warn("the console's login was tried with a wrong token", "client", r.RemoteAddr)
		g.turnedAway(w, r, 0)
		return
	}
	cookie, ok := g.sessions.begin(g.turn, g.token)
	if !ok {
		fail(w, http.StatusServiceUnavailable, "the token is about to change: try again")
		return
	}
	if old, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.end(old.Value)
	}
	g.setCookie(w, r, cookie, SessionLifetime)
	g.logger.Info("logged in to the console", "client", r.RemoteAddr)
	done(w, r)
}

// tokenIn reads the token that a login sends, and answers itself if it cannot.
func tokenIn(w http.ResponseWriter, r *http.Request) (string, bool) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		var given struct {
			Token string `json:"token"`
		}
		ok := read(w, r, &given)
		return given.Token, ok
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		fail(w, http.StatusBadRequest, "the body: %v", err)
		return "", false
	}
	return r.PostForm.Get("token"), true // of the body only: a token is never in a URL
}

// turnedAway answers a login that was none, and says when to try again if that is
// not at once.
func (g *gate) turnedAway(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	switch page := isForm(r); {
	case wait == 0 && page:
		g.form(w, http.StatusUnauthorized, "That is not the token.")
	case wait == 0:
		unauthorized(w)
	case page:
		retryAfter(w, wait)
		g.form(w, http.StatusTooManyRequests, "Too many wrong tokens came from here. Try again later.")
	default:
		tooMany(w, wait)
	}
}

// logout ends the session that r has.
func (g *gate) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.end(c.Value)
		g.logger.Info("logged out of the console", "client", r.RemoteAddr)
	}
	g.setCookie(w, r, "", -time.Second)
	done(w, r)
}

// done answers a login or a logout: a form goes to the page, any other
// client gets {"ok": true}.
func done(w http.ResponseWriter, r *http.Request) {
	if isForm(r) {
		seeOther(w, "./")
		return
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
}

// isForm reports whether a browser sends r in place of its page.
func isForm(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind != "application/json" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// seeOther sends a browser to a page, relative to where it is: http.Redirect would
// make that absolute, and nobody here knows what is before our path.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// session returns that of r, or nil.
func (g *gate) session(r *http.Request) *session {
	c, err := r.Cookie(g.cookieName(r))
	if err != nil || c.Value == "" {
		return nil
	}
	return g.sessions.find(g.turn, g.token, c.Value)
}

// cookieName is what the cookie of the session is called, by where the browser
// has it from. Cookies do not tell the ports of a host apart, so the port is in
// the name. Over TLS its beginning has the browser make sure that nobody else has
// set it: with __Host- that it is of this host and for all paths, with __Secure-
// that it came over TLS.
func (g *gate) cookieName(r *http.Request) string {
	name := "weir-session"
	if _, port, err := net.SplitHostPort(r.Host); err == nil && isNumber(port) {
		name += "-" + port
	}
	switch {
	case r.TLS == nil:
		return name
	case g.reach == everywhere:
		return "__Host-" + name
	}
	return "__Secure-" + name
}

func isNumber(text string) bool {
	return text != "" && len(text) <= 5 && strings.Trim(text, "0123456789") == ""
}

// setCookie gives the browser the cookie for a time, or takes it away. Without a
// path it is for the login's own folder, as the browser sees it.
func (g *gate) setCookie(w http.ResponseWriter, r *http.Request, value string, lifetime time.Duration) {
	c := &http.Cookie{
		Name:     g.cookieName(r),
		Value:    value,
		MaxAge:   int(lifetime.Seconds()),
		Secure:   r.TLS != nil,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
	if g.reach == everywhere {
		c.Path = "/"
	}
	http.SetCookie(w, c)
}

// form answers with the page of the login, which says what was wrong.
func (g *gate) form(w http.ResponseWriter, status int, wrong string) {
	var b bytes.Buffer
	if err := g.page.login.Execute(&b, struct{ Wrong string }{wrong}); err != nil {
		fail(w, http.StatusInternalServerError, "the page of the login: %v", err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
}
