package rfc9111

import (
	"net/http"
	"time"
)

// A Policy is what a route adds to the origin's directives: weirhttp.Policy,
// which explains the fields, with a few more.
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
	// Private: the cache is a private one (RFC 9111 section 1). Only
	// [weirhttp.NewPrivateTransport] sets it.
	Private bool
	// Unkeyed are names of request fields, or prefixes of names followed by a star, that
	// are forwarded and not compared.
	Unkeyed []string
	// PerCall are names of request fields that are written for each call, such as one with a
	// deadline: what a client sends in them selects nothing, also if Vary names them.
	PerCall []string
	// Identify returns what only the program knows of the client of a request; nil: nothing.
	Identify func(*http.Request) string
	// AnyClient: without a stated lifetime, the client's address does not count.
	AnyClient bool

	// Together: what is only for some requests when it is stale is only for them at all. A
	// fleet and a folder keep one set of names with a response.
	Together bool

	strict bool // all that counts is compared, whatever the origin says: event streams
}
