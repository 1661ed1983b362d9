package weirhttp

import (
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A Policy is what a route says beside the origin about what is cached. The zero
// Policy obeys the origin.
type Policy struct {
	// TTL replaces the freshness that the origin states, for answers with status
	// 200, 203, 204, 300, 301, 308, 404, 405, 410, 414 and 501. It makes them storable
	// though the origin says nothing, but not though it says no-store, private
	// or no-cache. 0 obeys the origin.
	TTL time.Duration
	// ErrorTTL is the freshness of answers with status 400 and more that is only
	// TTL's: the smaller of the two holds, and bounds their stale windows too. What
	// the origin states for such an answer is obeyed instead of TTL. 0 means
	// DefaultErrorTTL, negative that TTL is not for them.
	ErrorTTL time.Duration
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
	// clients that send the same.
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
	// Overrides names request fields by which frameworks take another URL, host or
	// method than those of the request, which are no part of the key. A GET or HEAD
	// with one is passed on as it is, and neither stored, shared, nor answered from
	// the store; unless the field is in Vary or IgnoreHeaders. nil means
	// [DefaultOverrides]; an empty list that is not nil means none. Names are
	// canonical; "_" counts as "-".
	//
	// Other than these, the fields that proxies write into every request
	// (X-Forwarded-*, but for X-Forwarded-For, X-Scheme, X-Original-Host and their
	// like) do not keep an answer from being stored: it is kept apart by those that
	// its request has. Forwarded counts among Overrides when it has a host or proto.
	Overrides []string
	// ForwardingDropped says that the next handler drops X-Forwarded-* and
	// Forwarded, so that they need not be looked at.
	ForwardingDropped bool
}

// DefaultErrorTTL is Policy.ErrorTTL where that is 0.
const DefaultErrorTTL = rfc9111.DefaultErrorTTL

// DefaultOverrides returns Policy.Overrides where that is nil.
func DefaultOverrides() []string { return rfc9111.Overrides() }
