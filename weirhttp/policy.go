package weirhttp

import (
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A Policy is what a route adds to the origin's rules for caching. The zero Policy
// follows the origin.
type Policy struct {
	// TTL replaces the freshness lifetime that the origin states, for responses with
	// status 200, 203, 204, 300, 301, 308, 404, 405, 410, 414 and 501. It makes them
	// storable even without explicit freshness, but not against no-store, private or
	// no-cache. 0 follows the origin.
	TTL time.Duration
	// ErrorTTL is the freshness lifetime of responses with status 400 and above that
	// have none but TTL. The smaller of the two applies, and also bounds their stale
	// windows. If the origin states a lifetime for such a response, it applies
	// instead of TTL. 0 means DefaultErrorTTL; negative means that TTL does not apply
	// to them.
	ErrorTTL time.Duration
	// Force applies TTL even against no-cache, private and no-store. Responses with
	// Set-Cookie or Vary: *, and those to requests with credentials, stay unstored.
	Force bool
	// Heuristic is the share of the time since Last-Modified for which a response
	// without explicit freshness is fresh (RFC 9111 section 4.2.2), at most
	// MaxHeuristic. 0 means off.
	Heuristic    float64
	MaxHeuristic time.Duration // 0 means 24 h
	// StaleWhileRevalidate and StaleIfError are the windows (RFC 5861) of responses
	// that state none. The origin's values take precedence.
	StaleWhileRevalidate, StaleIfError time.Duration
	// StaleOffline is how long past its freshness a stored response may be used while
	// the origin is unreachable (RFC 9111 section 4.2.4). 0 means off.
	StaleOffline time.Duration
	// Vary names request fields that select a response, in addition to the origin's
	// Vary. With Authorization or Cookie in it, the field is compared, and no longer
	// forbids sharing among clients that send the same value. If a request has a field
	// with "_" instead of "-", that field selects its response as well.
	Vary []string
	// VaryCookies names cookies that select a response. Use it with IgnoreCookies, or
	// with a Cookie field that the origin allows responses to be shared for.
	VaryCookies []string
	// IgnoreHeaders and IgnoreCookies name what is removed from a request before it
	// is compared and before it is forwarded: what does not count in the comparison
	// is not forwarded either. "*" in IgnoreCookies stands for all cookies that
	// VaryCookies does not name. Header names are canonical. Fields with "_" instead
	// of "-" are removed as well: origins that receive fields as variables cannot tell
	// the two apart.
	//
	// If "*" is the only entry of IgnoreHeaders, all fields of GET, HEAD and declared
	// reads are removed except these: Authorization and Cookie, the fields that Vary names,
	// fields that describe the body, the Accept fields, conditions such as If-None-Match,
	// and the IDs of requests and traces.
	IgnoreHeaders, IgnoreCookies []string
	// UnkeyedHeaders name what is forwarded as the first request has it, and not compared:
	// two requests that differ in it share a response. They are canonical names, prefixes
	// of names that end in a star (X-Acme-*), or "*" for all. They never cover
	// Authorization, Cookie, Origin, Overrides, and the fields by which proxies say what
	// the client requested.
	UnkeyedHeaders []string
	// AnyClient says that responses do not depend on the client's address. It matters where
	// neither the origin nor TTL states a lifetime: calls in flight are then shared by
	// clients of different addresses.
	AnyClient bool
	// IgnoreRequestDirectives ignores Cache-Control from clients, except no-store and
	// only-if-cached.
	IgnoreRequestDirectives bool
	// Targeted names the fields of RFC 9213 that take precedence over Cache-Control.
	// The first one that is present and valid wins. nil means CDN-Cache-Control.
	Targeted []string
	// Overrides names request fields from which frameworks take another URL, host or
	// method than those of the request, and which are not part of the key. A GET or
	// HEAD with one is forwarded unchanged. It is neither stored nor shared nor
	// served from the store, unless the field is in Vary or IgnoreHeaders. nil means
	// [DefaultOverrides]; an empty list that is not nil means none. Names are
	// canonical; "_" counts as "-".
	//
	// Other fields that proxies write into every request (X-Forwarded-* except
	// X-Forwarded-For, X-Scheme, X-Original-Host and the like) do not keep a response
	// from being stored: they select it, as if Vary named those that the request has.
	// Forwarded counts as an override if it has a host or proto.
	Overrides []string
	// ForwardingDropped means that the next handler drops X-Forwarded-* and
	// Forwarded, so that they need not be considered.
	ForwardingDropped bool
}

// rules converts p.
func (p Policy) rules() rfc9111.Policy {
	return rfc9111.Policy{
		TTL: p.TTL, ErrorTTL: p.ErrorTTL, Force: p.Force, Heuristic: p.Heuristic, MaxHeuristic: p.MaxHeuristic,
		StaleWhileRevalidate: p.StaleWhileRevalidate, StaleIfError: p.StaleIfError, StaleOffline: p.StaleOffline,
		Vary: p.Vary, VaryCookies: p.VaryCookies, IgnoreHeaders: p.IgnoreHeaders, IgnoreCookies: p.IgnoreCookies,
		IgnoreRequestDirectives: p.IgnoreRequestDirectives, Targeted: p.Targeted, Overrides: p.Overrides,
		ForwardingDropped: p.ForwardingDropped, Unkeyed: p.UnkeyedHeaders, AnyClient: p.AnyClient,
	}
}

// DefaultErrorTTL applies when Policy.ErrorTTL is 0.
const DefaultErrorTTL = rfc9111.DefaultErrorTTL

// DefaultOverrides returns the list that applies when Policy.Overrides is nil.
func DefaultOverrides() []string { return rfc9111.Overrides() }
