package rfc9111

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// perConnection tells the fields that are for one connection only, RFC 9110
// section 7.6.1, or for one proxy (RFC 9111 section 3.1). Trailer is among them
// since trailers are never stored.
func perConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info":
		return true
	}
	return false
}

// wellNamed reports whether the names of all fields are tokens. Of those that are
// not, such as "Set-Cookie ", nobody knows how others will read them. A trailer
// that is set by http.TrailerPrefix is no field.
func wellNamed(h http.Header) bool {
	for name := range h {
		if !token(name) && !strings.HasPrefix(name, http.TrailerPrefix) {
			return false
		}
	}
	return true
}

// nominated are the canonical names that Connection lists.
func nominated(h http.Header) []string {
	var names []string
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = trim(name); name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	return names
}

// EndToEnd returns a copy of h without the fields that are for one connection
// only (RFC 9110 section 7.6.1) or that are never stored: those and the ones
// that Connection names, Trailer, Proxy-Authenticate, Proxy-Authorization,
// Proxy-Authentication-Info. Its values may be shared with h.
func EndToEnd(h http.Header) http.Header {
	out := make(http.Header, len(h))
	names := nominated(h)
	for name, values := range h {
		if len(values) > 0 && !perConnection(name) && !slices.Contains(names, name) {
			out[name] = values
		}
	}
	return out
}

// Freshen returns the fields of a stored response after a 304 with the fields
// update, RFC 9111 section 3.2. All fields of the update take the place of the
// stored ones, except those that tell of the stored bytes (Content-Length,
// Content-Encoding, Content-Range), and Set-Cookie, which is never stored. The
// stored Age and Date go even if the update has none, since they count from
// another answer. Values may be shared with both.
func Freshen(stored, update http.Header) http.Header {
	out := maps.Clone(stored)
	if out == nil {
		out = make(http.Header)
	}
	delete(out, "Age")
	delete(out, "Date")
	for name, values := range EndToEnd(update) {
		switch name {
		case "Content-Length", "Content-Encoding", "Content-Range", "Set-Cookie", "Set-Cookie2":
		default:
			out[name] = values
		}
	}
	return out
}

// Forward takes out of h what the policy ignores, and reports whether that was
// anything. h is changed in place unless dry is set: then it is only looked at.
// The slices in h are not altered but replaced.
func (p *Policy) Forward(h http.Header, dry bool) bool {
	changed := false
	for _, name := range p.IgnoreHeaders {
		if _, ok := h[name]; ok {
			changed = true
			if !dry {
				delete(h, name)
			}
		}
	}
	lines := h["Cookie"]
	if len(p.IgnoreCookies) == 0 || !slices.ContainsFunc(lines, p.crumbles) {
		return changed
	}
	if dry {
		return true
	}
	var left []string
	for _, line := range lines {
		if line = p.strip(line); line != "" {
			left = append(left, line)
		}
	}
	if left == nil {
		delete(h, "Cookie")
	} else {
		h["Cookie"] = left
	}
	return true
}

// ignores reports whether a cookie is taken out. What has no name at all, as
// behind the last semicolon, goes with the star.
func (p *Policy) ignores(pair string) bool {
	name, _ := splitCookie(pair)
	if name != "" && slices.Contains(p.IgnoreCookies, name) && name != "*" {
		return true
	}
	return slices.Contains(p.IgnoreCookies, "*") && (name == "" || !slices.Contains(p.VaryCookies, name))
}

// crumbles reports whether a line of Cookie has a cookie that is taken out.
func (p *Policy) crumbles(line string) bool {
	for pair := range strings.SplitSeq(line, ";") {
		if p.ignores(pair) {
			return true
		}
	}
	return false
}

// strip returns the line without the cookies that are taken out. The others stay
// byte for byte, and so does a line that has none to take out.
func (p *Policy) strip(line string) string {
	if !p.crumbles(line) {
		return line
	}
	var left []string
	for pair := range strings.SplitSeq(line, ";") {
		if pair = trim(pair); pair != "" && !p.ignores(pair) {
			left = append(left, pair)
		}
	}
	return strings.Join(left, "; ")
}
