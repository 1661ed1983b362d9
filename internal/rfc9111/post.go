package rfc9111

import (
	"net/http"
	"net/url"
	"time"
)

// ReadPost decides about a response to req, a POST of target (path and query, as in
// a key), which may answer later GET and HEAD requests for the same URL (RFC 9110
// section 9.3.3). It does if its status is 200, the origin states a freshness that
// has not passed, and Content-Location is the URL of the request. For the rest the
// rules are those of [Policy.Read]; no policy stores against the origin's
// directives. Such a response is shared with no waiting request.
func (p *Policy) ReadPost(req *http.Request, q Request, scheme, target string, status int, h http.Header, sent, received time.Time) Response {
	own, get := *p, *req
	own.Force = false
	get.Method = http.MethodGet
	r := own.Read(&get, q, status, h, sent, received)
	r.Shared = false
	d := own.directives(h)
	_, stated := d.lifetime(h, received)
	switch {
	case !r.Storable:
	case status != http.StatusOK || q.Conditional || q.Range || !located(req, scheme, target, h):
		r.Reason = ReasonMethod
	case !stated:
		r.Reason = ReasonFreshness
	case r.Validate:
		r.Reason = ReasonNoCache
	case r.Lifetime <= r.Age:
		r.Reason = ReasonStale
	}
	r.Storable = r.Reason == ""
	return r
}

// located reports whether Content-Location in h is the URL of the request r.
func located(r *http.Request, scheme, target string, h http.Header) bool {
	lines := h["Content-Location"]
	if len(lines) != 1 || trim(lines[0]) == "" {
		return false
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	base, err := url.Parse(scheme + "://" + host + target)
	if err != nil {
		return false
	}
	u, err := base.Parse(trim(lines[0]))
	return err == nil && u.User == nil && u.Fragment == "" && sameOrigin(base, u) && u.RequestURI() == target
}
