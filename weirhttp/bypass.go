package weirhttp

import (
	"net/http"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A bypass is why a request does not use the cache. It is decided here alone: requests,
// observe mode and explain ask the same functions.
type bypass uint8

const (
	usesCache bypass = iota
	bypassMethod
	bypassBody
	bypassUpgrade
	bypassStream
	bypassExpect
	bypassOfOrigin
	bypassOtherForm
	bypassResumes
	bypassOverride
	// Of a read with a body:
	bypassCondition
	bypassTrailers
	bypassContentTypes
)

// String completes "It bypasses the cache: ...".
func (b bypass) String() string {
	return [...]string{
		usesCache:          "it does not",
		bypassMethod:       "its method is not GET or HEAD, and no rule declares it a read",
		bypassBody:         "it has a body",
		bypassUpgrade:      "it asks for an upgrade",
		bypassStream:       "it asks for a stream of events, or is gRPC",
		bypassExpect:       "it has an Expect field",
		bypassOfOrigin:     "it has a condition that only the origin may evaluate",
		bypassOtherForm:    "it asks for another form than the representation, such as a range of another unit than bytes",
		bypassResumes:      "it has Last-Event-ID, and only the origin knows which events follow",
		bypassOverride:     "it has a field that may override its URL",
		bypassCondition:    "it has a body, and a condition or a range",
		bypassTrailers:     "it has trailers",
		bypassContentTypes: "it has more than one Content-Type",
	}[b]
}

// token names b in counters.
func (b bypass) token() string {
	return [...]string{
		usesCache:          "",
		bypassMethod:       "method",
		bypassBody:         "body",
		bypassUpgrade:      "upgrade",
		bypassStream:       "event-stream",
		bypassExpect:       "expect",
		bypassOfOrigin:     "origin-condition",
		bypassOtherForm:    "other-form",
		bypassResumes:      "resume",
		bypassOverride:     "override",
		bypassCondition:    "body-condition",
		bypassTrailers:     "trailers",
		bypassContentTypes: "content-types",
	}[b]
}

// bypasses returns why r, parsed as q, bypasses the cache, before the policy removes
// fields from it. read means that it has a body, and a ReadRule.
func (h *Handler) bypasses(r *http.Request, q rfc9111.Request, read bool) bypass {
	switch {
	case !read && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return bypassMethod
	case !read && r.ContentLength != 0: // in a server, 0 means that there is none, although Body may be another reader
		return bypassBody
	case q.Upgrade:
		return bypassUpgrade
	case q.Streams && !h.sharesEvents(r):
		return bypassStream
	case q.Expect:
		return bypassExpect
	case q.OtherForm:
		return bypassOtherForm
	case read && (q.Conditional || q.Range):
		return bypassCondition
	case q.OfOrigin:
		return bypassOfOrigin
	case read && len(r.Trailer) > 0:
		return bypassTrailers
	case read && len(r.Header["Content-Type"]) > 1:
		return bypassContentTypes
	}
	return usesCache
}

// bypassesAsked is bypasses for what depends on the fields that are left.
func (h *Handler) bypassesAsked(r *http.Request, q rfc9111.Request) bypass {
	switch {
	case q.Override:
		return bypassOverride
	case h.resumes(r):
		return bypassResumes
	}
	return usesCache
}

// read returns r as the policy and the query rules forward it, the parsed fields of that,
// and why it bypasses the cache.
func (h *Handler) read(r *http.Request) (*http.Request, rfc9111.Request, bypass) {
	r = h.query.applyTo(endToEnd(r))
	q := h.readRequest(r)
	if why := h.bypasses(r, q, false); why != usesCache {
		return r, q, why
	}
	r, q = h.asked(r, q)
	return r, q, h.bypassesAsked(r, q)
}
