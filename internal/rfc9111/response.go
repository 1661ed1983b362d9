package rfc9111

import (
	"slices"
	"time"
)

// A Response holds what the head of a final response means to a cache.
type Response struct {
	Status int

	Storable bool
	Reason   string // why it cannot be stored or shared: a short constant text such as "no-store"
	Shared   bool   // waiting requests that it matches may receive it
	// Admits is the set of credentials that a request may have and still use the
	// response: all of the request's credentials must be in it.
	Admits Credentials

	Received time.Time     // when its head arrived
	Age      time.Duration // at that time: the corrected initial age, RFC 9111 section 4.2.3
	Explicit bool          // the freshness was stated
	Lifetime time.Duration
	// Windows after the freshness, 0 for none. Both are 0 after must-revalidate,
	// proxy-revalidate or no-cache.
	StaleWhileRevalidate, StaleIfError time.Duration
	StaleOffline                       time.Duration
	// OwnStaleWhileRevalidate and OwnStaleIfError: the origin states the window. The others
	// are the policy's, which are only for requests that also match StaleVary, a name as
	// in Vary; empty: for all that it matches.
	OwnStaleWhileRevalidate, OwnStaleIfError bool
	StaleVary                                string
	MustRevalidate                           bool // never served stale, to any request
	Validate                                 bool // no-cache: stored, but validated before each use

	Vary []string // what selects it: canonical field names, "cookie:NAME", AcceptEvents, the kinds that count, a coding; sorted
	Tags []string // from Surrogate-Key and Cache-Tag
}

// Narrow makes r, a stored response with the fields of a 304, be for none for whom old,
// the stored response, was not. A 304 may narrow who gets a response, never widen it.
func (r *Response) Narrow(old *Response) {
	r.Admits &= old.Admits
	for _, name := range old.Vary {
		if !slices.Contains(r.Vary, name) {
			r.Vary = append(slices.Clip(r.Vary), name)
		}
	}
	slices.Sort(r.Vary)
	if r.StaleVary == "" {
		r.StaleVary = old.StaleVary
	}
}
