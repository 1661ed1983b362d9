package rfc9111

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// perConnection reports whether a field is for one connection only (RFC 9110
// section 7.6.1) or for one proxy (RFC 9111 section 3.1). Trailer is included
// because trailers are never stored.
func perConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info":
		return true
	}
	return false
}

// wellNamed reports whether all field names are tokens. Other recipients may
// interpret a name that is not, such as "Set-Cookie ", in unknown ways. A trailer
// set through http.TrailerPrefix is not a field.
func wellNamed(h http.Header) bool {
	for name := range h {
		if !token(name) && !strings.HasPrefix(name, http.TrailerPrefix) {
			return false
		}
	}
	return true
}

// nominated returns the canonical names of the fields that Connection lists.
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

// EndToEnd returns a copy of h without the fields that apply to one connection
// only (RFC 9110 section 7.6.1) or are never stored: the hop-by-hop fields, those
// that Connection names, Trailer, Proxy-Authenticate, Proxy-Authorization, and
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
// update, RFC 9111 section 3.2. Each field of the update replaces the stored one,
// except those that describe the stored bytes (Content-Length, Content-Encoding,
// Content-Range), Set-Cookie, which is never stored, and Vary, which gets both. The stored Age and Date
// are dropped even if the update has neither, because they belong to an earlier
// response. Values may be shared with both arguments.
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
		case "Vary": // it may narrow who gets the response, and never widens it
			if !slices.Equal(values, stored[name]) {
				out[name] = slices.Concat(stored[name], values)
			}
		default:
			out[name] = values
		}
	}
	return out
}

// Forward removes from h the fields and cookies that the policy ignores, and
// reports whether there were any. A field with "_" instead of "-" is ignored as well.
// Forward changes h in place, unless dry is set: then
// it only reports. The slices in h are replaced, never modified.
func (p *Policy) Forward(h http.Header, dry bool) bool {
	changed := false
	for name := range h {
		if p.ignoresHeader(name) {
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

// ignoresHeader reports whether the field name is removed.
func (p *Policy) ignoresHeader(name string) bool {
	if len(p.IgnoreHeaders) == 0 {
		return false
	}
	if p.IgnoreHeaders[0] == "*" {
		return !p.survives(name)
	}
	return slices.Contains(p.IgnoreHeaders, name) ||
		strings.IndexByte(name, '_') >= 0 && slices.Contains(p.IgnoreHeaders, plain(name))
}

// survives reports whether the field name is forwarded although the policy ignores "*":
// it is a credential, about the body or the connection, named by the policy, part of
// the negotiation, or one that never counts and says nothing about the program.
func (p *Policy) survives(name string) bool {
	switch {
	case slices.Contains(programs, name), strings.HasPrefix(name, "Sec-"), strings.HasPrefix(name, "X-Stainless-"):
		return false
	case strings.HasPrefix(name, "Content-"), p.apart(name):
		return true
	}
	kind := (*Policy)(nil).kind(name)
	return kind == 0 || kind == kindNegotiation
}

// ignores reports whether a cookie is removed. "*" also covers a pair without a
// name, such as the empty one after a trailing semicolon.
func (p *Policy) ignores(pair string) bool {
	name, _ := splitCookie(pair)
	if name != "" && slices.Contains(p.IgnoreCookies, name) && name != "*" {
		return true
	}
	return slices.Contains(p.IgnoreCookies, "*") && (name == "" || !slices.Contains(p.VaryCookies, name))
}

// crumbles reports whether a line of Cookie contains a cookie that is removed.
func (p *Policy) crumbles(line string) bool {
	for pair := range strings.SplitSeq(line, ";") {
		if p.ignores(pair) {
			return true
		}
	}
	return false
}

// strip returns the line without the cookies to remove. The remaining cookies
// stay byte for byte, and so does a line with nothing to remove.
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
