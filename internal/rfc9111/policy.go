package rfc9111

import "time"

// A Policy is what a route adds to the origin's directives: weirhttp.Policy,
// which explains the fields and is converted into this type.
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
}
