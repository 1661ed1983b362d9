package rfc9111

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// None is the value of a duration that was not stated.
const None time.Duration = -1

// Credentials is a set of request fields that identify the client.
type Credentials uint8

// The credentials.
const (
	Authorization Credentials = 1 << iota
	Cookie
)

// A Request holds what the fields of a request mean to a cache.
type Request struct {
	// The directives of Cache-Control, RFC 9111 section 5.2.1. If an argument is
	// not delta-seconds, the strictest reading of the directive applies.
	NoStore      bool
	NoCache      bool // no-cache, max-age=0, or Pragma: no-cache without Cache-Control
	OnlyIfCached bool
	MaxAge       time.Duration // None when absent
	MinFresh     time.Duration // 0 when absent
	MaxStale     time.Duration // None when absent, the longest duration if it has no argument

	Credentials Credentials // the credentials it has
	Conditional bool        // has an If-… field
	OfOrigin    bool        // has If-Match or If-Unmodified-Since, which only the origin may evaluate (RFC 9111 section 4.3.2)
	Range       bool        // has Range
	Expect      bool        // has Expect
	Upgrade     bool        // has Upgrade
	Streams     bool        // asks for text/event-stream, or is gRPC
	Override    bool        // has a field of Policy.Overrides; [ReadRequest] does not look for them
	// Read: it has a body, and only reads (H32). [ReadRequest] does not know.
	Read bool
}

// ReadRequest parses the fields of a request under the policy: with
// IgnoreRequestDirectives, only no-store and only-if-cached count.
func (p *Policy) ReadRequest(h http.Header) Request {
	q := readRequest(h, p)
	if p.IgnoreRequestDirectives {
		q.NoCache, q.MaxAge, q.MinFresh, q.MaxStale = false, None, 0, None
	}
	return q
}

// ReadRequest parses the fields of a request. It allocates nothing for typical
// requests from browsers and programs.
func ReadRequest(h http.Header) Request { return readRequest(h, nil) }

// readRequest is ReadRequest under the policy p, which may be nil.
func readRequest(h http.Header, p *Policy) Request {
	q := Request{MaxAge: None, MaxStale: None}
	var pragma []string
	// One pass over the map is cheaper than a lookup for each name, because
	// requests have few fields.
	for name, lines := range h {
		if len(lines) == 0 {
			continue
		}
		switch name {
		case "Cache-Control":
			q.cacheControl(lines)
		case "Pragma":
			pragma = lines
		case "Authorization":
			q.Credentials |= Authorization
		case "Cookie":
			q.Credentials |= Cookie
		case "Range":
			q.Range = true
		case "Expect":
			q.Expect = true
		case "Upgrade":
			q.Upgrade = true
		case "Accept":
			q.Streams = q.Streams || wantsEvents(lines)
		case "Content-Type":
			q.Streams = q.Streams || hasPrefixFold(lines[0], "application/grpc")
		default:
			if len(name) > 3 && name[:3] == "If-" {
				q.Conditional = true
				q.OfOrigin = q.OfOrigin || name == "If-Match" || name == "If-Unmodified-Since"
			} else if p != nil && name != "" && p.overrides(name, lines) {
				q.Override = true
			}
		}
	}
	if pragma != nil && len(h["Cache-Control"]) == 0 {
		q.pragma(pragma)
	}
	return q
}

// cacheControl parses the directives. If one is repeated, the strictest value
// counts.
func (q *Request) cacheControl(lines []string) {
	for _, line := range lines {
		var m member
		for line != "" {
			m, line = nextMember(line, m)
			q.add(m)
		}
	}
	if q.MaxAge == 0 {
		q.NoCache = true
	}
}

func (q *Request) add(m member) {
	switch {
	case m.broken:
		q.NoStore = true
	case m.is("no-store"):
		q.NoStore = true
	case m.is("no-cache"):
		q.NoCache = true
	case m.is("only-if-cached"):
		q.OnlyIfCached = true
	case m.is("max-age"):
		q.MaxAge = shorter(q.MaxAge, m.seconds())
	case m.is("min-fresh"):
		v, ok := deltaSeconds(m.value)
		if !ok || m.junk {
			v = longest
		}
		q.MinFresh = max(q.MinFresh, v)
	case m.is("max-stale"):
		v := time.Duration(math.MaxInt64)
		if m.valued || m.junk {
			v = m.seconds()
		}
		q.MaxStale = shorter(q.MaxStale, v)
	}
}

// pragma parses Pragma, whose only meaningful directive is no-cache, RFC 9111
// section 5.4.
func (q *Request) pragma(lines []string) {
	for _, line := range lines {
		var m member
		for line != "" {
			if m, line = nextMember(line, m); m.is("no-cache") {
				q.NoCache = true
			}
		}
	}
}

// wantsEvents reports whether text/event-stream is among the types of Accept.
func wantsEvents(lines []string) bool {
	const events = "text/event-stream"
	for _, s := range lines {
		if len(s) < len(events) || !strings.Contains(s, "/e") && !strings.Contains(s, "/E") {
			continue // the usual case, and cheaper than examining each type
		}
		for {
			if s = skipBlanks(s); len(s) < len(events) {
				break
			}
			if hasPrefixFold(s, events) && (len(s) == len(events) || !isToken(s[len(events)])) {
				return true
			}
			i := strings.IndexByte(s, ',')
			if i < 0 {
				break
			}
			s = s[i+1:]
		}
	}
	return false
}

// hasPrefixFold reports whether s begins with prefix, ignoring case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
