package weirhttp

import "time"

// A Policy is what a route says beside the origin about what is cached. The zero
// Policy obeys the origin.
type Policy struct {
	// TTL replaces the freshness that the origin states, for answers with status
	// 200, 203, 204, 300, 301, 308, 404, 405, 410, 414 and 501. It makes them storable
	// though the origin says nothing, but not though it says no-store, private
	// or no-cache. 0 obeys the origin.
	TTL time.Duration
	// Force makes TTL hold against no-cache, private and no-store too. What has
	// Set-Cookie, Vary: * or answered credentials stays unstored.
	Force bool
	// Heuristic is the share of the time since Last-Modified for which an answer
	// without explicit freshness is fresh (RFC 9111 section 4.2.2), at most
	// MaxHeuristic. 0 means off.
	Heuristic    float64
	MaxHeuristic time.Duration // 0 means 24 h
	// StaleWhileRevalidate and StaleIfError are the windows (RFC 5861) of
	// answers that state none; what the origin states wins.
	StaleWhileRevalidate, StaleIfError time.Duration
	// StaleOffline is how long past its freshness a stored answer may be used
	// while the origin cannot be reached (RFC 9111 section 4.2.4), 0 off.
	StaleOffline time.Duration
	// Vary names request fields that the answers are kept apart by, in addition
	// to what the origin's Vary says. With Authorization or Cookie in it, the
	// field is part of what is compared, and no longer forbids sharing among
	// those who send the same.
	Vary []string
	// VaryCookies names cookies that the answers are kept apart by. It has to be
	// used with IgnoreCookies or a Cookie that the origin allows to share.
	VaryCookies []string
	// IgnoreHeaders and IgnoreCookies name what is taken out of a request before
	// it is compared, and before it is forwarded: what is left out of one is
	// left out of the other. "*" in IgnoreCookies stands for all that
	// VaryCookies does not name. Names of headers are canonical.
	IgnoreHeaders, IgnoreCookies []string
	// IgnoreRequestDirectives takes no Cache-Control from clients, except
	// no-store and only-if-cached.
	IgnoreRequestDirectives bool
	// Targeted names the fields of RFC 9213 that are obeyed before Cache-Control,
	// the first that is present and valid wins. nil means CDN-Cache-Control.
	Targeted []string
}
