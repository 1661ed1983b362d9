package rfc9111

import "time"

// Sharing says which waiting requests may get a response.
type Sharing uint8

// The ways to share.
const (
	Nobody Sharing = iota // only the one whose request it answers
	Alike                 // whose end-to-end fields equal that request's, see [Policy.MayShare]
	Anyone                // whose selecting fields match, since its freshness is explicit
)

// A Response is what the head of a final response says to a cache.
type Response struct {
	Status int

	Storable bool
	Reason   string // why it is not storable, or not shareable: a short constant text such as "no-store"
	Sharing  Sharing
	// Admits says which requests with credentials may use it: those whose
	// credentials are all in it.
	Admits Credentials

	Received time.Time     // when its head came
	Age      time.Duration // then: the corrected initial age, RFC 9111 section 4.2.3
	Explicit bool          // the freshness was stated
	Lifetime time.Duration
	// Windows after the freshness, 0 for none. Both are 0 where must-revalidate,
	// proxy-revalidate or no-cache were written.
	StaleWhileRevalidate, StaleIfError time.Duration
	StaleOffline                       time.Duration
	MustRevalidate                     bool // stale is never served, to any request
	Validate                           bool // no-cache: stored, but validated before each use

	Vary []string // what it is kept apart by: canonical field names, and "cookie:NAME"; sorted
	Tags []string // of Surrogate-Key and Cache-Tag
}
