package console

import (
	"bytes"
	"html"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
)

// answered serves requests that need no token: the login, the logout, and the files
// of the login page. It reports whether r was one of them.
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

// login opens a session for a client that sends the token.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	token, ok := tokenIn(w, r)
	if !ok {
		return
	}
	wait, right := g.sessions.try(r, g.long, func() bool { return g.isToken(token) })
	switch {
	case wait > 0:
		if g.sessions.says(time.Now()) {
			g.logger.Warn("console login rejected after too many wrong tokens", "client", r.RemoteAddr)
		}
		g.turnedAway(w, r, wait)
		return
	case !right:
		g.logger.Warn("console login with a wrong token", "client", r.RemoteAddr)
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

// tokenIn reads the token of a login. If it cannot, it responds with the error and
// returns false.
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
	return r.PostForm.Get("token"), true // from the body only: a token must never be in a URL
}

// turnedAway responds to a rejected login, with Retry-After if the client has to
// wait.
func (g *gate) turnedAway(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	switch page := isForm(r); {
	case wait == 0 && page:
		g.form(w, http.StatusUnauthorized, "Wrong token.")
	case wait == 0:
		unauthorized(w)
	case page:
		retryAfter(w, wait)
		g.form(w, http.StatusTooManyRequests, "Too many wrong tokens from your address. Try again later.")
	default:
		tooMany(w, wait)
	}
}

// logout ends the session of r.
func (g *gate) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.end(c.Value)
		g.logger.Info("logged out of the console", "client", r.RemoteAddr)
	}
	g.setCookie(w, r, "", -time.Second)
	done(w, r)
}

// done responds to a login or a logout: a form is redirected to the page, any other
// client gets {"ok": true}.
func done(w http.ResponseWriter, r *http.Request) {
	if isForm(r) {
		seeOther(w, "./")
		return
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
}

// isForm reports whether r was sent by a form in a browser and not by a script.
func isForm(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind != "application/json" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// seeOther redirects a browser to a relative URL. http.Redirect would make it
// absolute, and the full path is not known here.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// session returns the session of r, or nil.
func (g *gate) session(r *http.Request) *session {
	c, err := r.Cookie(g.cookieName(r))
	if err != nil || c.Value == "" {
		return nil
	}
	return g.sessions.find(g.turn, g.token, c.Value)
}

// cookieName returns the name of the session cookie. Cookies do not distinguish the
// ports of a host, so the port is in the name. Over TLS, a prefix makes the browser
// ensure that no other site has set the cookie: __Host- that it is from this host and
// for all paths, __Secure- that it was set over TLS.
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

// setCookie sets or deletes the browser's cookie. Without a path it is for the
// login's folder, as the browser sees it.
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

// loginError is the place in login.html for an error message.
const loginError = "<!-- error -->"

// form responds with the login page and an error message.
func (g *gate) form(w http.ResponseWriter, status int, wrong string) {
	text := ""
	if wrong != "" {
		text = `<p class="wrong" role="alert">` + html.EscapeString(wrong) + `</p>`
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	body := bytes.Replace(g.page.files["login.html"].body, []byte(loginError), []byte(text), 1)
	_, _ = w.Write(body) // the client may be gone
}
