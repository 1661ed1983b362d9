package rfc9111

import (
	"net/http"
	"slices"
	"strings"
)

// indifferent is the list that [Indifferent] returns.
var indifferent = []string{
	// The client program and the page it comes from. An origin whose response
	// depends on these sends Vary.
	"User-Agent", "Sec-Ch-Ua*", "Referer", "Sec-Fetch-*", "Priority",
	// Tracing.
	"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-*", "Sentry-Trace",
	"X-Request-Id", "X-Correlation-Id", "X-Cloud-Trace-Context", "X-Amzn-Trace-Id",
	"Uber-Trace-Id", "X-Datadog-*", "Newrelic", "Elastic-Apm-Traceparent",
	// The route that the request took, and the client's address.
	"Via", "Cdn-Loop", "X-Forwarded-For", "X-Real-Ip",
	// The body, which is part of the key: two of one meaning may differ in length.
	"Content-Length",
	// Fields that are evaluated per request.
	"Cache-Control", "Pragma", "If-*", "Range",
}

// Indifferent returns the canonical names of the request fields in which two
// requests may differ and still share a response without explicit freshness (H2).
// A trailing star matches any ending. The fields describe the client, the path to
// it, or conditions that are evaluated per request, but not the resource.
//
// Forwarded, X-Forwarded-Host, -Proto, -Port and -Prefix are not among them:
// origins build links and redirects from them, so a client could choose the links
// that other clients get.
func Indifferent() []string { return slices.Clone(indifferent) }

// differs reports whether the field name must be equal in requests that share.
func differs(name string) bool {
	for _, pattern := range indifferent {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return false
		}
	}
	return true
}

// Counts reports whether two requests that differ in the field name, which is
// canonical, request different things.
func Counts(name string) bool { return differs(name) && !perConnection(name) }

// MayShare reports whether the response r to the request with fields leader may
// also be used for a waiting request with fields waiter, parsed as q (H2, H3).
// The caller has established that both have the same key, and that both are GET
// requests without a body, or reads with the same body.
func (p *Policy) MayShare(r *Response, leader, waiter http.Header, q Request) bool {
	if r.Sharing == Nobody || q.Credentials&^r.Admits != 0 {
		return false
	}
	if !Matches(r.Vary, Selecting(r.Vary, leader), waiter) {
		return false
	}
	return r.Sharing == Anyone || alike(leader, waiter)
}

// alike reports whether a and b have the same end-to-end fields, ignoring the
// indifferent ones. Lines and values are compared as they are.
func alike(a, b http.Header) bool {
	return within(a, b) && within(b, a)
}

// within reports whether b has all significant fields of a, with the same values.
func within(a, b http.Header) bool {
	inA, inB := nominated(a), nominated(b)
	for name, values := range a {
		if len(values) == 0 || !differs(name) || perConnection(name) || slices.Contains(inA, name) {
			continue
		}
		if !slices.Equal(values, b[name]) || slices.Contains(inB, name) {
			return false
		}
	}
	return true
}
