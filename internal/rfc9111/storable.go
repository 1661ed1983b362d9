package rfc9111

import (
	"net/http"
	"slices"
	"time"
)

// The reasons in [Response.Reason].
const (
	ReasonMethod         = "method"           // not a response to a GET or another read
	ReasonStatus         = "status"           // the status forbids it
	ReasonSetCookie      = "set-cookie"       // weir's rule: it is for one client
	ReasonVary           = "vary"             // Vary: *, a Vary that cannot be read, or one on a field that the gateway writes
	ReasonRequestNoStore = "request-no-store" // the client said no-store
	ReasonNoStore        = "no-store"         // the origin said no-store
	ReasonPrivate        = "private"          // the origin said private
	ReasonNoCache        = "no-cache"         // the origin said no-cache, and there is no validator or it must not be shared
	ReasonAuthorization  = "authorization"    // the request had Authorization, and the response does not allow sharing
	ReasonCookie         = "cookie"           // the request had a Cookie, and the response does not allow sharing
	ReasonFreshness      = "no-freshness"     // neither the response nor the policy states one
	ReasonStale          = "stale"            // stale on arrival, without a validator or a window
	ReasonField          = "field"            // a field name is not a token: other recipients may read it as another field
	ReasonOtherForm      = "other-form"       // it may be another form than others ask for: a range of another unit, a delta, a coding
	ReasonTags           = "tags"             // too many tags, or one too long
)

// Read decides about a final response to req, parsed as q, with the given status
// and fields. The request was sent at sent, and the response headers arrived at
// received.
//
// After a 304, pass the status of the stored response and the fields that
// [Freshen] returned.
func (p *Policy) Read(req *http.Request, q Request, status int, h http.Header, sent, received time.Time) Response {
	return p.read(req, q, status, h, p.directives(h), false, sent, received)
}

// read is Read with the directives d. lifted means that no-cache was removed from
// them.
func (p *Policy) read(req *http.Request, q Request, status int, h http.Header, d directives, lifted bool, sent, received time.Time) Response {
	r := Response{Status: status, Received: received, Age: initialAge(h, sent, received)}
	if d.mustUnderstand {
		// RFC 9111 section 5.2.2.3: no-store is for caches that do not understand
		// the status.
		d.noStore = d.noStore && !understood(status)
	}
	terms := p.freshen(&r, &d, h)
	forced := terms.forced
	r.Validate = d.noCache && !forced
	r.Admits = p.admits(&d, forced || lifted)
	kinds, own := p.counting(&r, &d, terms, q, req.Method, h)
	kinds |= p.windows(&r, &d, terms.brief, own)
	var readable bool
	r.Vary, readable = p.vary(h, q, kinds)

	veto := p.veto(&r, &d, q, h, forced, readable)
	if req.Method != http.MethodGet && req.Method != "" && !q.Read {
		veto = ReasonMethod
	}
	r.Reason = veto
	if veto == "" {
		r.Reason = p.storing(&r, &d, h)
		r.Storable = r.Reason == ""
		r.share(&d, forced)
	}
	if r.Storable {
		if r.Tags, r.Storable = readTags(h); !r.Storable {
			r.Reason, r.Tags = ReasonTags, nil
		}
	}
	return r
}

// DefaultErrorTTL applies if a Policy's ErrorTTL is 0.
const DefaultErrorTTL = 10 * time.Second

// errorTTL is the longest lifetime that TTL may give to a response with status
// 400 or more, 0 if TTL does not apply to those.
func (p *Policy) errorTTL() time.Duration {
	if p.ErrorTTL == 0 {
		return min(clip(p.TTL), DefaultErrorTTL)
	}
	return min(clip(p.TTL), clip(p.ErrorTTL))
}

// terms are what a lifetime rests on.
type terms struct {
	forced bool          // the policy's TTL overrides a directive that forbids storing or reuse
	brief  bool          // it is errorTTL
	route  bool          // it is the policy's
	origin time.Duration // what the origin states, 0 if it states none
}

// freshen sets the lifetime of r.
func (p *Policy) freshen(r *Response, d *directives, h http.Header) terms {
	forbidden := d.noStore || d.private || d.noCache
	life, stated := d.lifetime(h, r.Received)
	t := terms{origin: life}
	if !stated {
		t.origin = 0
	}
	if p.TTL > 0 && heuristicStatus(r.Status) && (p.Force || !forbidden) {
		if r.Status < http.StatusBadRequest {
			r.Explicit, r.Lifetime = true, clip(p.TTL)
			t.forced, t.route = forbidden, true
			return t
		}
		// An error is not kept for as long as a resource that exists.
		if short := p.errorTTL(); short > 0 && (forbidden || !stated) {
			r.Explicit, r.Lifetime = true, short
			t.forced, t.route, t.brief = forbidden, true, true
			return t
		}
	}
	if stated {
		r.Explicit, r.Lifetime = true, life
		return t
	}
	if p.Heuristic > 0 && (heuristicStatus(r.Status) || d.public) {
		r.Lifetime = p.heuristic(h, r.Received)
	}
	return t
}

// counting returns the kinds of fields by which r is compared, and whether the origin's
// own words justify its use: it says public, or states a lifetime or a stale window
// (decision 0090). Otherwise, and where the operator or the program has declared the
// sharing, all that counts must be equal.
func (p *Policy) counting(r *Response, d *directives, t terms, q Request, method string, h http.Header) (kinds Kinds, own bool) {
	kinds = kindForwarding | kindPart
	if !anyOrigin(h) {
		kinds |= kindOrigin
	}
	heuristic := !r.Explicit && r.Lifetime > 0 // the route adds that to the origin's words, whatever these are
	own = !t.forced && !heuristic && (d.public || t.origin > 0 || d.swr > 0 || d.sie > 0 || r.Validate)
	declared := p.Private || q.Read && method != methodQuery || p.strict
	if own && !declared {
		if !d.public && (d.sMaxAge == None || d.malformed) {
			kinds |= kindIdentity
		}
		return kinds, true
	}
	kinds |= kindIdentity | kindUnknown
	if !t.route {
		kinds |= kindNegotiation | kindPage
	}
	if (!r.Explicit || r.Lifetime <= 0) && !p.AnyClient {
		kinds |= kindAddress
	}
	return kinds, own
}

// methodQuery is the method of RFC 10008.
const methodQuery = "QUERY"

// lifetime returns the freshness that the origin states, and whether it states
// one.
func (d *directives) lifetime(h http.Header, received time.Time) (time.Duration, bool) {
	switch {
	case d.sMaxAge != None:
		return d.sMaxAge, true
	case d.maxAge != None:
		return d.maxAge, true
	case d.targeted:
		return 0, false
	}
	return expiresIn(h, received)
}

// heuristic returns the heuristic lifetime of RFC 9111 section 4.2.2, or 0.
func (p *Policy) heuristic(h http.Header, received time.Time) time.Duration {
	lines := h["Last-Modified"]
	if len(lines) == 0 {
		return 0
	}
	modified, ok := httpDate(lines[0], received)
	if !ok {
		return 0
	}
	bound := p.MaxHeuristic
	if bound == 0 {
		bound = 24 * time.Hour
	}
	bound = min(bound, longest)
	life := float64(max(dateOf(h, received).Sub(modified), 0)) * p.Heuristic
	if life >= float64(bound) {
		return bound
	}
	return time.Duration(life)
}

// windows sets how long r may be used past its freshness (H11). If errorTTL
// bounds the lifetime (brief), it bounds the policy's windows too. What the policy adds
// to the origin's own words (own) is only for requests in which all that counts is equal.
//
// These kinds are in StaleVary, or returned if the policy has them together.
func (p *Policy) windows(r *Response, d *directives, brief, own bool) Kinds {
	most := longest
	switch {
	case aboutTheClient(r.Status):
		most = 0 // the route speaks of the resource
	case brief:
		most = p.errorTTL()
	}
	if d.mustRevalidate || d.proxyRevalidate || d.noCache {
		r.MustRevalidate = true
		return 0
	}
	r.StaleWhileRevalidate, r.StaleIfError = d.swr, d.sie
	if d.swr == None {
		r.StaleWhileRevalidate = min(clip(p.StaleWhileRevalidate), most)
	}
	if d.sie == None {
		r.StaleIfError = min(clip(p.StaleIfError), most)
	}
	// RFC 9111 section 5.2.2.10: s-maxage implies proxy-revalidate. But if the
	// origin states a window next to it, the window counts.
	if d.sMaxAge != None && r.StaleWhileRevalidate == 0 && r.StaleIfError == 0 {
		r.MustRevalidate = true
		return 0
	}
	r.StaleOffline = min(clip(p.StaleOffline), most)
	ours := d.swr == None && r.StaleWhileRevalidate > 0 || d.sie == None && r.StaleIfError > 0 || r.StaleOffline > 0
	if !own || !ours {
		return 0
	}
	r.OwnStaleWhileRevalidate, r.OwnStaleIfError = d.swr != None, d.sie != None
	kinds := kindIdentity | kindUnknown
	if !d.public && r.Lifetime <= 0 {
		kinds |= kindNegotiation
	}
	if p.Together {
		return kinds
	}
	r.StaleVary = p.countsName(kinds)
	return 0
}

// clip limits a policy's duration to the range that can be summed without
// overflow.
func clip(d time.Duration) time.Duration { return min(max(d, 0), longest) }

// admits returns the credentials that the response may be used with: RFC 9111
// section 3.5 for Authorization, weir's rule for Cookie, and the credentials that
// the policy keeps apart. A response shared by force is never shared with
// credentials that the origin may have considered.
func (p *Policy) admits(d *directives, forced bool) Credentials {
	var c Credentials
	if !forced {
		if d.public || d.sMaxAge != None && !d.malformed {
			c = Authorization | Cookie
		}
		if d.mustRevalidate && !d.malformed {
			c |= Authorization
		}
	}
	return c | p.Apart()
}

// Apart returns the credentials that the policy compares in full: those in Vary,
// and Cookie if only the cookies in VaryCookies remain of it.
func (p *Policy) Apart() Credentials {
	var c Credentials
	for _, name := range p.Vary {
		switch http.CanonicalHeaderKey(name) {
		case "Authorization":
			c |= Authorization
		case "Cookie":
			c |= Cookie
		}
	}
	if slices.Contains(p.IgnoreCookies, "*") {
		c |= Cookie
	}
	return c
}

// veto returns the reason why r is neither stored nor shared, or "".
func (p *Policy) veto(r *Response, d *directives, q Request, h http.Header, forced, readable bool) string {
	denied := q.Credentials &^ r.Admits
	switch {
	case r.Status < 200 || r.Status > 599 || r.Status == http.StatusPartialContent || r.Status == http.StatusNotModified:
		return ReasonStatus
	case forOneClient(r.Status), r.Status == http.StatusRequestedRangeNotSatisfiable && q.Range,
		r.Status == http.StatusPreconditionFailed && q.Conditional: // it is about the range or the condition, which the key does not have
		return ReasonStatus
	case d.mustUnderstand && !understood(r.Status):
		return ReasonStatus
	case !wellNamed(h):
		return ReasonField
	case len(h["Set-Cookie"]) > 0 || len(h["Set-Cookie2"]) > 0:
		return ReasonSetCookie
	case !readable:
		return ReasonVary
	case q.OtherForm, r.Status == http.StatusOK && len(h["Content-Range"]) > 0, refused(q, h):
		return ReasonOtherForm
	case q.NoStore:
		return ReasonRequestNoStore
	case d.noStore && !forced:
		return ReasonNoStore
	case d.private && !forced:
		return ReasonPrivate
	case denied&Authorization != 0:
		return ReasonAuthorization
	case denied&Cookie != 0:
		return ReasonCookie
	}
	return ""
}

// storing returns the reason why r, which has passed veto, is not stored, or "".
// It follows RFC 9111 section 3, and also rejects a response that could never be
// used.
func (p *Policy) storing(r *Response, d *directives, h http.Header) string {
	validator := len(h["Etag"]) > 0 || len(h["Last-Modified"]) > 0
	if r.Validate {
		if !validator || !r.Explicit && !d.public && !heuristicStatus(r.Status) {
			return ReasonNoCache
		}
		return ""
	}
	if !r.Explicit && r.Lifetime == 0 {
		if p.Private && validator && heuristicStatus(r.Status) {
			return "" // it is validated before each use
		}
		return ReasonFreshness
	}
	if r.Lifetime <= r.Age && !validator && r.StaleWhileRevalidate == 0 && r.StaleIfError == 0 && r.StaleOffline == 0 {
		return ReasonStale
	}
	return ""
}

// share decides whether waiting requests that it matches may receive r, which has passed
// veto (H2).
func (r *Response) share(d *directives, forced bool) {
	switch {
	case d.noCache && !forced:
		r.Reason = ReasonNoCache
	case aboutTheClient(r.Status):
		if r.Reason == "" {
			r.Reason = ReasonStatus
		}
	default:
		r.Shared = true
	}
}

// refused reports whether a response with the fields h has a content coding that q does
// not accept.
func refused(q Request, h http.Header) bool {
	coding := contentCoding(h)
	return coding != "" && codingValue(coding, q.Fields) == refusesCoding
}

// forOneClient reports whether a status is never stored or shared: 407, which is
// about the client's own proxy, and the codes of RFC 6585, which forbids it.
func forOneClient(status int) bool {
	switch status {
	case 407, 428, 429, 431, 511:
		return true
	}
	return false
}

// aboutTheClient reports whether a status is not shared with waiting requests
// because it is about the client, or about a field of its request.
func aboutTheClient(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || AboutOneRequest(status)
}

// AboutOneRequest reports whether a field of one request, or its connection, can be the
// cause of a status. It says nothing about the next request.
func AboutOneRequest(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable, http.StatusExpectationFailed,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusPreconditionRequired,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusLoopDetected:
		return true
	}
	return false
}

// heuristicStatus reports whether RFC 9110 section 15.1 defines a status as
// heuristically cacheable, except 206: a part is judged by the status of the whole.
func heuristicStatus(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// understood reports whether weir knows what a status means to a cache: those of
// RFC 9110, except 206 and 304.
func understood(status int) bool {
	switch {
	case status == http.StatusPartialContent || status == http.StatusNotModified || status == 306 || status == 418:
		return false
	case status >= 200 && status <= 205, status >= 300 && status <= 308, status >= 400 && status <= 417:
		return true
	}
	return status == 421 || status == 422 || status == 426 || status >= 500 && status <= 505
}
