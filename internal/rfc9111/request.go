package rfc9111

import (
	"math"
	"net/http"
	"slices"
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
	// OtherForm: it asks for another form than the representation that the URL names, which
	// only the origin knows: a range of another unit than bytes, or A-IM (RFC 3229).
	OtherForm bool
	Expect    bool // has Expect
	Upgrade   bool // has Upgrade
	Streams   bool // asks for text/event-stream, or is gRPC
	Override  bool // has a field of Policy.Overrides; [ReadRequest] does not look for them
	// Read: it has a body, and only reads (H32). [ReadRequest] does not know.
	Read bool

	// Fields are those of the request, as they are forwarded.
	Fields http.Header
	// from has what it is compared by besides its fields: the address of the connection
	// and the client certificate; nil: nothing. See From.
	from   *http.Request
	policy *Policy // nil: none
	kinds  Kinds   // of Fields and from
}

// From sets the request that q was parsed from.
func (q *Request) From(r *http.Request) {
	q.from = r
	if r.RemoteAddr != "" {
		q.kinds |= kindAddress
	}
	if len(certificate(r)) > 0 || q.identity() != "" {
		q.kinds |= kindUnknown
	}
}

// identity returns what only the program knows of the client of q.
func (q *Request) identity() string {
	if q.policy == nil || q.policy.Identify == nil || q.from == nil {
		return ""
	}
	return q.policy.Identify(q.from)
}

// certificate returns the certificate of the client of r, or nil.
func certificate(r *http.Request) []byte {
	if r == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0].Raw
}

// address returns the address of the client of r, without its port. Handlers in front may
// have set one that has none, also of IPv6.
func address(r *http.Request) string {
	if r == nil {
		return ""
	}
	i := strings.LastIndexByte(r.RemoteAddr, ':')
	if i < 0 || strings.IndexByte(r.RemoteAddr, ':') < i && r.RemoteAddr[i-1] != ']' {
		return r.RemoteAddr
	}
	return r.RemoteAddr[:i]
}

// Counts reports whether q has a field, or something else, that counts wherever all that
// counts is compared.
func (q *Request) Counts() bool {
	_, some := q.digest(kindForwarding | kindPart | kindIdentity | kindOrigin | kindUnknown)
	return some
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
	q := Request{MaxAge: None, MaxStale: None, Fields: h, policy: p}
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
			q.OtherForm = q.OtherForm || !inBytes(lines)
		case "Expect":
			q.Expect = true
			q.kinds |= p.kind(name)
		case "Upgrade":
			q.Upgrade = true
		case "Accept":
			q.Streams = q.Streams || wantsEvents(lines)
			q.kinds |= p.kindIs(name, kindNegotiation)
		case "Accept-Encoding", "Accept-Language":
			q.kinds |= p.kindIs(name, kindNegotiation)
		case "Referer":
			q.kinds |= p.kindIs(name, kindPage)
		case "Content-Type":
			q.Streams = q.Streams || hasPrefixFold(lines[0], "application/grpc")
			q.kinds |= p.kind(name)
		case "User-Agent", "Connection", "Priority": // most requests have them
		case "A-Im":
			q.OtherForm = true
			q.kinds |= kindUnknown
		default:
			switch {
			case name == "":
			case strings.HasPrefix(name, "If-"):
				q.Conditional = true
				q.OfOrigin = q.OfOrigin || name == "If-Match" || name == "If-Unmodified-Since"
			case strings.HasPrefix(name, "Sec-"):
				q.kinds |= p.kind(name)
			default:
				q.Override = q.Override || p != nil && p.overrides(name, lines)
				q.kinds |= p.kind(name)
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

// inBytes reports whether the lines of a Range field are in bytes.
func inBytes(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !hasPrefixFold(skipBlanks(line), "bytes=") })
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
