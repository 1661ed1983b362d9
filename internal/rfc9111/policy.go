package rfc9111

import "time"

// A Policy is what a route adds to the origin's directives: weirhttp.Policy,
// which explains the fields, with two more.
type Policy struct {
	TTL                                time.Duration
	ErrorTTL                           time.Duration
	Force                              bool
	Heuristic                          float64
	MaxHeuristic                       time.Duration
	StaleWhileRevalidate, StaleIfError time.Duration
	StaleOffline                       time.Duration
	Vary                               []string
	VaryCookies                        []string
	IgnoreHeaders, IgnoreCookies       []string
	IgnoreRequestDirectives            bool
	Targeted                           []string
	Overrides                          []string
	ForwardingDropped                  bool
	// Gateway: the next handler forwards requests, and writes the fields about the client
	// and the path to it: see written.
	Gateway bool
	// Private: the cache is a private one (RFC 9111 section 1). Vary must then name all
	// that may identify a user. Only [weirhttp.NewPrivateTransport] sets it.
	Private bool
}
