package rfc9111

import (
	"net/http"
	"slices"
	"strings"
)

// indifferent are the request fields that [Indifferent] tells.
var indifferent = []string{
	// The program that asks, and where it comes from. An origin that depends on
	// these sends Vary.
	"User-Agent", "Sec-Ch-Ua*", "Referer", "Sec-Fetch-*", "Priority",
	// Tracing.
	"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-*", "Sentry-Trace",
	"X-Request-Id", "X-Correlation-Id", "X-Cloud-Trace-Context", "X-Amzn-Trace-Id",
	"Uber-Trace-Id", "X-Datadog-*", "Newrelic", "Elastic-Apm-Traceparent",
	// The way it came by, and the client's address.
	"Via", "Cdn-Loop", "X-Forwarded-For", "X-Real-Ip",
	// What is evaluated for each request on its own.
	"Cache-Control", "Pragma", "If-*", "Range",
}

// Indifferent returns the canonical names of the request fields in which two
// requests may differ and still share a response without explicit freshness
// (H2); a star stands for any end. They describe the client, the path to it, or
// what is evaluated for each request, but not the resource.
//
// Forwarded, X-Forwarded-Host, -Proto, -Port and -Prefix are not among them:
// origins make links and redirects of what they say, so a client could choose
// the links that the others get.
func Indifferent() []string { return slices.Clone(indifferent) }

// differs reports whether the field name is to be equal in requests that share.
func differs(name string) bool {
	for _, pattern := range indifferent {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return false
		}
	}
	return true
}

// Counts reports whether requests that differ in the field name, which is
// canonical, differ in what they ask for.
func Counts(name string) bool { return differs(name) && !perConnection(name) }

// MayShare reports whether the response r to the request with fields leader
// satisfies one that waited for it, with fields waiter, of which q was read
// (H2, H3). The keys of the two are equal already, and so is what they are
// (GET, no body).
func (p *Policy) MayShare(r *Response, leader, waiter http.Header, q Request) bool {
	if r.Sharing == Nobody || q.Credentials&^r.Admits != 0 {
		return false
	}
	if !Matches(r.Vary, Selecting(r.Vary, leader), waiter) {
		return false
	}
	return r.Sharing == Anyone || alike(leader, waiter)
}

// alike reports whether a and b have the same end-to-end fields, but for the
// indifferent ones. Lines and values are compared as they are.
func alike(a, b http.Header) bool {
	return within(a, b) && within(b, a)
}

// within reports whether b has the fields that count in a, with the same values.
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
