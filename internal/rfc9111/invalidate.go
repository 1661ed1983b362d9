package rfc9111

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Invalidates returns the targets (path and query, as in a key) that a non-error
// response with these fields to the unsafe request r invalidates (RFC 9111
// section 4.4): the request's own target, and those in Location and
// Content-Location with the same scheme and host. The request's own target is
// taken from the request line if there is one, as the client sent it. Any method
// not known to be safe is unsafe.
func Invalidates(r *http.Request, scheme string, status int, h http.Header) []string {
	switch r.Method {
	case http.MethodGet, "", http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY": // RFC 10008 for the last
		return nil
	}
	if status < 200 || status > 399 {
		return nil
	}
	own := r.RequestURI
	if !strings.HasPrefix(own, "/") {
		own = r.URL.RequestURI()
	}
	targets := []string{own}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	base, err := url.Parse(scheme + "://" + host + own)
	if err != nil {
		return targets
	}
	for _, name := range []string{"Location", "Content-Location"} {
		for _, line := range h[name] {
			u, err := base.Parse(trim(line))
			if err != nil || !sameOrigin(base, u) {
				continue
			}
			if t := u.RequestURI(); !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

// sameOrigin compares origins as RFC 9110 section 4.3.1 defines: a default port
// can be explicit or omitted.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	p := u.Port()
	if p == "" && strings.EqualFold(u.Scheme, "http") {
		return "80"
	}
	if p == "" && strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return p
}
