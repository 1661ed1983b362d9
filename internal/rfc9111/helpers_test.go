package rfc9111_test

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

var t0 = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// fields builds a header from alternating names and values.
func fields(nv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(nv); i += 2 {
		h.Add(nv[i], nv[i+1])
	}
	return h
}

func get(h http.Header) *http.Request {
	return &http.Request{Method: http.MethodGet, Header: h}
}

// read reads a response that arrived without delay, to a request with the fields
// req.
func read(p *rfc9111.Policy, req http.Header, status int, h http.Header) rfc9111.Response {
	return p.Read(get(req), p.ReadRequest(req), status, h, t0, t0)
}

var noFields = http.Header{}

// plain is a request without anything that affects a cache.
var plain = rfc9111.ReadRequest(noFields)

// origin is the policy that follows the origin.
var origin = &rfc9111.Policy{}

// httpTime formats t0 plus d as an HTTP date.
func httpTime(d time.Duration) string { return t0.Add(d).Format(http.TimeFormat) }

// asks returns a request with fields h.
func asks(h http.Header) *rfc9111.Request {
	q := rfc9111.ReadRequest(h)
	return &q
}

func selecting(vary []string, h http.Header) string { return rfc9111.Selecting(vary, asks(h)) }

func matches(vary []string, selected string, h http.Header) bool {
	q := rfc9111.ReadRequest(h)
	return rfc9111.Matches(vary, selected, &q)
}

// anyone reports whether waiting requests may receive r by the origin's own words, and
// alike whether only those may in which all that counts is equal.
func anyone(r rfc9111.Response) bool { return r.Shared && !rfc9111.Strict(r.Vary) }
func alike(r rfc9111.Response) bool  { return r.Shared && rfc9111.Strict(r.Vary) }

// mayShare is MayShare for requests with these fields under p.
func mayShare(p *rfc9111.Policy, r *rfc9111.Response, leader, waiter http.Header) bool {
	a, b := p.ReadRequest(leader), p.ReadRequest(waiter)
	return rfc9111.MayShare(r, &a, &b)
}

// named returns the names in a Vary that the origin or the policy gave.
func named(vary []string) []string {
	return slices.DeleteFunc(slices.Clone(vary), func(name string) bool { return strings.HasPrefix(name, "counts:") })
}
