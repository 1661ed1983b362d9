package rfc9111

import "time"

// Sharing determines which waiting requests may receive a response.
type Sharing uint8

// The ways to share.
const (
	Nobody Sharing = iota // only the request it responds to
	Alike                 // requests whose end-to-end fields equal those of that request, see [Policy.MayShare]
	Anyone                // requests whose selecting fields match, because the freshness is explicit
)

// A Response holds what the head of a final response means to a cache.
type Response struct {
	Status int

	Storable bool
	Reason   string // why it cannot be stored or shared: a short constant text such as "no-store"
	Sharing  Sharing
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
	MustRevalidate                     bool // never served stale, to any request
	Validate                           bool // no-cache: stored, but validated before each use

	Vary []string // what selects it: canonical field names, "cookie:NAME", AcceptEvents and Forwarding; sorted
	Tags []string // from Surrogate-Key and Cache-Tag
}
