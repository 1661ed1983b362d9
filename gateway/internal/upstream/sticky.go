package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// A Sticky sends a client that has a session to the server of the session (H39). A cookie names
// the server by an authentication code of its URL, so that it has no address and cannot be made
// up without the key.
type Sticky struct {
	Cookie string
	Key    []byte
}

// tokenBytes is how much of the code is in the cookie.
const tokenBytes = 16

// token returns the value of the cookie for a server.
func (o *Sticky) token(server string) string {
	mac := hmac.New(sha256.New, o.Key)
	mac.Write([]byte("weir sticky 1 " + server))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:tokenBytes])
}

// of returns the server that r's cookie names, nil if it names none: it is forged, or from
// before a change of the key or the servers.
func (n *settings) of(r *http.Request) *server {
	for value := range n.sessions(r) {
		if i := slices.Index(n.tokens, value); i >= 0 {
			return n.servers[i]
		}
	}
	return nil
}

// sticks reports whether r has the cookie, whatever its value.
func (n *settings) sticks(r *http.Request) bool {
	for range n.sessions(r) {
		return true
	}
	return false
}

// sessions returns the values of the cookie in r.
func (n *settings) sessions(r *http.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		if n.o.Sticky == nil {
			return
		}
		for _, line := range r.Header["Cookie"] {
			for line != "" {
				var one string
				one, line, _ = strings.Cut(line, ";")
				name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
				if name == n.o.Sticky.Cookie && !yield(value) {
					return
				}
			}
		}
	}
}

// stick adds the cookie for s to a response that begins a session, since it sets a cookie, and to
// one that must not be stored if the client has had a session elsewhere. No such response goes to
// another client. Others stay without it: a cookie keeps them, and the client's later requests, from
// being shared.
func (n *settings) stick(r *http.Request, resp *http.Response, s *server) {
	i := slices.Index(n.servers, s)
	if n.o.Sticky == nil || i < 0 || n.of(r) == s || resp.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	if resp.Header["Set-Cookie"] == nil && (!n.sticks(r) || !noStore(resp.Header)) {
		return
	}
	c := http.Cookie{Name: n.o.Sticky.Cookie, Value: n.tokens[i], Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.Header.Get("X-Forwarded-Proto") == "https"}
	resp.Header.Add("Set-Cookie", c.String())
}

func noStore(h http.Header) bool {
	for _, line := range h["Cache-Control"] {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(one), "no-store") {
				return true
			}
		}
	}
	return false
}

// prefer sets what r's cookie means for the choice.
func (n *settings) prefer(r *http.Request, q *choose.Request) {
	if s := n.of(r); s != nil {
		q.Prefer = &s.known
	}
}
