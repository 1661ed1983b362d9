package rfc9111

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// None is a duration that was not said.
const None time.Duration = -1

// Credentials are the fields of a request that say who asks.
type Credentials uint8

// The credentials.
const (
	Authorization Credentials = 1 << iota
	Cookie
)

// A Request is what the fields of a request say to a cache.
type Request struct {
	// The directives of Cache-Control, RFC 9111 section 5.2.1. An argument that
	// is not delta-seconds counts as the strictest reading of the directive.
	NoStore      bool
	NoCache      bool // no-cache, max-age=0, or Pragma: no-cache without Cache-Control
	OnlyIfCached bool
	MaxAge       time.Duration // None when absent
	MinFresh     time.Duration // 0 when absent
	MaxStale     time.Duration // None when absent, the longest duration without an argument

	Credentials Credentials // that it has
	Conditional bool        // has an If-… field
	Range       bool        // has Range
	Expect      bool        // has Expect
	Upgrade     bool        // has Upgrade
	Streams     bool        // asks for text/event-stream, or is gRPC
	Override    bool        // has a field of Policy.Overrides; [ReadRequest] does not look for them
}

// ReadRequest reads the fields of a request, as the policy wants it: with
// IgnoreRequestDirectives, only no-store and only-if-cached of its directives.
func (p *Policy) ReadRequest(h http.Header) Request {
	q := readRequest(h, p)
	if p.IgnoreRequestDirectives {
		q.NoCache, q.MaxAge, q.MinFresh, q.MaxStale = false, None, 0, None
	}
	return q
}

// ReadRequest reads the fields of a request. It allocates nothing for the
// requests that browsers and programs usually send.
func ReadRequest(h http.Header) Request { return readRequest(h, nil) }

// readRequest is ReadRequest by a policy, nil for none.
func readRequest(h http.Header, p *Policy) Request {
	q := Request{MaxAge: None, MaxStale: None}
	var pragma []string
	// One pass over the map is cheaper than a look-up for each of the names, as
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

// cacheControl reads the directives. Of several values the strictest counts.
func (q *Request) cacheControl(lines []string) {
	for _, line := range lines {
		for line != "" {
			var m member
			m, line = nextMember(line)
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

// pragma reads the one thing that Pragma can say, RFC 9111 section 5.4.
func (q *Request) pragma(lines []string) {
	for _, line := range lines {
		for line != "" {
			var m member
			if m, line = nextMember(line); m.is("no-cache") {
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
			continue // nearly always, and cheaper than to look at each type
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

// hasPrefixFold reports whether s begins with prefix, whatever the case of its
// letters.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
