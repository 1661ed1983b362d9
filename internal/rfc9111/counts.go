package rfc9111

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"net/http"
	"slices"
	"strings"
)

// Kinds are kinds of request fields, by what a difference in them means for two requests
// that are to share a response (decision 0090).
type Kinds uint8

const (
	kindForwarding  Kinds = 1 << iota // what the client requested, as a proxy says it; overrides
	kindPart                          // it asks for a part of a page, or for another form
	kindIdentity                      // known to carry a credential or a user
	kindOrigin                        // Origin
	kindUnknown                       // everything else, and what is no field: certificate, Options.Identity
	kindNegotiation                   // Accept, Accept-Encoding, Accept-Language
	kindAddress                       // the client's address
	kindPage                          // Referer
)

// kindLetters are the letters of the kinds in a name of Response.Vary.
const kindLetters = "fpiounar"

var kindOfLetter = func() (kinds [256]Kinds) {
	for i := range kindLetters {
		kinds[kindLetters[i]] = 1 << i
	}
	return kinds
}()

// countsPrefix begins the name in [Response.Vary] that means the fields of some kinds,
// with the letter of each. No field has a colon in its name.
const countsPrefix = "counts:"

// countsNames are all names for policies without their own words.
var countsNames = func() (names [256]string) {
	for kinds := range names {
		var b strings.Builder
		b.WriteString(countsPrefix)
		for i := range kindLetters {
			if kinds&(1<<i) != 0 {
				b.WriteByte(kindLetters[i])
			}
		}
		names[kinds] = b.String()
	}
	return names
}()

// countsName returns the name that stands for the fields of these kinds under p. It
// changes with Unkeyed, so that what was stored under other words is not found.
func (p *Policy) countsName(kinds Kinds) string {
	name := countsNames[kinds]
	if len(p.Unkeyed) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(strings.Join(p.Unkeyed, "\n")))
	return name + "/" + hex.EncodeToString(sum[:8])
}

// cutCounts returns the kinds that a name of Response.Vary stands for, and false if it
// is no such name.
func cutCounts(name string) (kinds Kinds, ok bool) {
	letters, ok := strings.CutPrefix(name, countsPrefix)
	if !ok {
		return 0, false
	}
	for i := 0; i < len(letters) && letters[i] != '/'; i++ {
		kinds |= kindOfLetter[letters[i]]
	}
	return kinds, true
}

// Strict reports whether responses selected by vary are only for requests in which
// everything that counts is equal.
func Strict(vary []string) bool {
	return slices.ContainsFunc(vary, func(name string) bool {
		kinds, ok := cutCounts(name)
		return ok && kinds&kindUnknown != 0
	})
}

// CountedKinds returns all kinds of fields that count in vary.
func CountedKinds(vary []string) (all Kinds) {
	for _, name := range vary {
		kinds, _ := cutCounts(name)
		all |= kinds
	}
	return all
}

// AppendCounted is [AppendSelecting]. It also reports whether q has something that counts
// in vary.
func AppendCounted(b []byte, vary []string, q *Request) (selecting []byte, counts bool) {
	for _, name := range vary {
		at := len(b)
		b = appendSelecting(b, name, q)
		if _, ok := cutCounts(name); ok {
			counts = counts || b[at] == '+'
		}
	}
	return b, counts
}

// PlainKinds returns the kinds of fields of which a request has none if it matches a
// response with these names and values, and that suffices; 0 if more selects it.
func PlainKinds(vary []string, selected string) Kinds {
	if len(vary) != 1 || selected != "-" {
		return 0
	}
	kinds, _ := cutCounts(vary[0])
	return kinds
}

// None reports whether q has no field of these kinds.
func (q *Request) None(kinds Kinds) bool { return q.kinds&kinds == 0 }

// Plain reports whether a response with these names and values is for each request in
// which nothing counts: nothing else selects it.
func Plain(vary []string, selected string) bool {
	if len(selected) != len(vary) {
		return false
	}
	for i, name := range vary {
		if _, ok := cutCounts(name); !ok || selected[i] != '-' {
			return false
		}
	}
	return true
}

// known is the table of the names whose kind is not kindUnknown; 0 means that the field
// never counts. A name that is missing counts: that costs hits, and never gives a wrong
// answer. Names are canonical, and exact: fields that share a prefix with one of these
// may say who the user is (X-Amzn-Oidc-Data, X-Forwarded-User).
var known = func() map[string]Kinds {
	table := make(map[string]Kinds)
	for _, entry := range []struct {
		kind  Kinds
		names string
	}{
		// Names of requests and traces, attempts, deadlines, start times, and the way that
		// the request took. W3C Trace Context; Zipkin B3; Sentry, Jaeger, Datadog, New
		// Relic, Elastic APM, OpenTracing, Linkerd and Envoy by their documentation.
		{0, `Traceparent Tracestate B3 Sentry-Trace Uber-Trace-Id Newrelic X-Newrelic-Id X-Newrelic-Transaction
			Elastic-Apm-Traceparent X-Ot-Span-Context L5d-Ctx-Trace X-Datadog-Trace-Id X-Datadog-Parent-Id
			X-Datadog-Sampling-Priority X-Datadog-Origin X-Datadog-Tags
			X-Request-Id X-Correlation-Id Request-Id Correlation-Id X-Client-Request-Id Client-Request-Id
			X-Ms-Client-Request-Id Amz-Sdk-Invocation-Id Amz-Sdk-Request Postman-Token
			X-Cloud-Trace-Context X-Amzn-Trace-Id X-Amz-Cf-Id Cf-Ray X-Azure-Ref Fly-Request-Id X-Vercel-Id X-Varnish
			Grpc-Timeout X-Envoy-Attempt-Count X-Envoy-Expected-Rq-Timeout-Ms X-Envoy-Decorator-Operation
			X-Envoy-Peer-Metadata X-Envoy-Peer-Metadata-Id
			X-Request-Start X-Queue-Start X-Timer Connect-Time Total-Route-Time Date X-Ms-Date Via Cdn-Loop Fastly-Ff
			Weir-Job-Attempt Weir-Job-Fence`},
		// Conditions and directives, which are evaluated for each request. If-* are in kind.
		{0, `Range Cache-Control Pragma Content-Length`},
		{0, strings.Join(programs, " ")},
		// Credentials have their own rule (H3).
		{0, `Authorization Cookie`},
		{kindPage, `Referer`},
		{kindNegotiation, `Accept Accept-Encoding Accept-Language`},
		{kindOrigin, `Origin`},
		{kindAddress, `X-Forwarded-For`},
		// By these, frameworks ask for a part of a page, and forget Vary: htmx, Turbo,
		// Inertia, React Server Components, Next.js, jQuery and PJAX. Prefer (RFC 7240)
		// asks for another form.
		{kindPart, `Hx-Request Hx-Boosted Hx-Target Hx-Trigger Hx-Trigger-Name Hx-Current-Url Hx-History-Restore-Request Hx-Prompt
			Turbo-Frame X-Inertia X-Inertia-Version X-Inertia-Partial-Component X-Inertia-Partial-Data
			X-Inertia-Partial-Except X-Inertia-Reset X-Inertia-Error-Bag Rsc Next-Router-State-Tree Next-Router-Prefetch
			Next-Router-Segment-Prefetch Next-Url X-Requested-With X-Pjax X-Pjax-Container X-Fragment Prefer
			X-Nextjs-Data X-Middleware-Prefetch`},
		{kindIdentity, strings.Join(identity, " ")},
		{kindForwarding, strings.Join(overrides, " ") + ` X-Scheme X-Url-Scheme X-Original-Host X-Original-Proto Front-End-Https Cf-Visitor`},
	} {
		for name := range strings.FieldsSeq(entry.names) {
			if table[name] = entry.kind; entry.kind == kindIdentity && forwarding(name) {
				table[name] |= kindForwarding
			}
		}
	}
	return table
}()

// programs are fields about the client program. An origin that depends on it sends Vary.
var programs = []string{"User-Agent", "Priority", "X-Goog-Api-Client", "X-Amz-User-Agent", "X-Ms-Useragent"}

// identity is the list that Identity returns.
var identity = slices.Concat(proofs, users)

// proofs are the fields by which a client proves who it is, in a request or a session. They
// can change while it stays the same client.
var proofs = []string{
	"Api-Key", "Apikey", "Ocp-Apim-Subscription-Key", "X-Access-Token", "X-Amz-Security-Token",
	"X-Api-Key", "X-Api-Token", "X-Apikey", "X-Auth-Key", "X-Auth-Token", "X-Authorization", "X-Goog-Api-Key",
	"X-Session-Id", "X-Session-Token", "X-Subscription-Token", "X-Token", "Mcp-Session-Id",
	// What proxies that authenticate clients add.
	"X-Client-Cert", "X-Forwarded-Client-Cert", "X-Ssl-Client-Cert", "X-Amzn-Oidc-Data", "Cf-Access-Jwt-Assertion",
}

// users are the fields that name a user or a tenant.
var users = []string{
	"Remote-User", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authenticated-User",
	"X-Forwarded-Email", "X-Forwarded-User", "X-Goog-Authenticated-User-Id", "X-Remote-User",
	"X-Amzn-Oidc-Identity", "L5d-Client-Id",
	"Openai-Organization", "Openai-Project", "X-Account-Id", "X-Org-Id", "X-Organization", "X-Scope-Orgid", "X-Tenant", "X-Tenant-Id",
	"X-User", "X-User-Id",
}

// Identity returns the canonical names of fields that are known to carry a credential or
// a user.
func Identity() []string { return slices.Clone(identity) }

// addresses are the fields besides X-Forwarded-For in which proxies write the client's
// address, and any client can.
var addresses = []string{"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Fastly-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
	"X-Azure-Clientip", "X-Azure-Socketip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Appengine-User-Ip"}

// Addresses returns the canonical names of the fields besides X-Forwarded-For and
// Forwarded in which proxies write the client's address.
func Addresses() []string { return slices.Clone(addresses) }

// kind returns the kind of the field name, which is canonical, under p; 0 if it never
// counts. p may be nil.
func (p *Policy) kind(name string) Kinds {
	if p.IsPerCall(name) {
		return 0
	}
	if p != nil && len(p.Vary) > 0 && p.apart(name) {
		return 0 // it is compared in any case
	}
	if p != nil && p.ForwardingDropped && (name[0] == 'X' || name[0] == 'F') && (name == "Forwarded" || strings.HasPrefix(plain(name), forwardedPrefix)) {
		return 0 // the next handler does not see it
	}
	if kind, ok := known[name]; ok {
		if kind&^(kindForwarding|kindPart|kindOrigin) == kind && p != nil && p.unkeyed(name) {
			return 0
		}
		return kind
	}
	switch {
	case perConnection(name), strings.HasPrefix(name, "If-"),
		strings.HasPrefix(name, "Sec-Ch-Ua"), strings.HasPrefix(name, "Sec-Fetch-"), // scripts cannot set these
		strings.HasPrefix(name, "X-B3-"), strings.HasPrefix(name, "X-Stainless-"): // of one owner, who documents them all
		return 0
	case forwarding(name):
		return kindForwarding
	case p != nil && p.unkeyed(name):
		return 0
	case p != nil && p.Gateway && (name == "Forwarded" || slices.Contains(addresses, name)):
		return kindAddress // as a trusted proxy wrote it: the gateway removes others
	}
	if other := plain(name); other != name && known[other] != 0 {
		return known[other] | kindUnknown // an origin may not tell the two apart
	}
	return kindUnknown
}

// Apart yields the names of q's fields that keep requests apart, without those of the
// client's address and of negotiation.
func (q *Request) Apart() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, lines := range q.Fields {
			if len(lines) > 0 && q.policy.kind(name)&^(kindAddress|kindNegotiation) != 0 && !yield(name) {
				return
			}
		}
	}
}

// Differing returns the names of the fields that count and in which a and b differ.
func Differing(a, b *Request) (names []string) {
	for _, fields := range []http.Header{a.Fields, b.Fields} {
		for name := range fields {
			if slices.Contains(names, name) || a.policy.kind(name) == 0 {
				continue
			}
			if !bytes.Equal(appendField(nil, name, a.Fields), appendField(nil, name, b.Fields)) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Compared returns the lines of the field name, which is canonical, in which two requests
// for the same differ only if they request different things, unless the response says
// more. All lines of credentials are among them.
func Compared(name string, lines []string) []string {
	switch name {
	case "Authorization", "Cookie":
		return lines
	}
	return new(Request).counts(^Kinds(0), name, lines)
}

// IsPerCall reports whether the field name, perhaps with "_" for "-", is one of PerCall. p may
// be nil.
func (p *Policy) IsPerCall(name string) bool {
	if p == nil || len(p.PerCall) == 0 {
		return false
	}
	return slices.Contains(p.PerCall, name) || strings.IndexByte(name, '_') >= 0 && slices.Contains(p.PerCall, plain(name))
}

// kindIs is kind for a field that is of this kind, unless the policy has words about it.
func (p *Policy) kindIs(name string, kind Kinds) Kinds {
	if p == nil || len(p.Vary) == 0 && len(p.Unkeyed) == 0 && len(p.PerCall) == 0 {
		return kind
	}
	return p.kind(name)
}

// unkeyed reports whether the policy says that the field name does not matter.
func (p *Policy) unkeyed(name string) bool {
	for _, pattern := range p.Unkeyed {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return true
		}
	}
	return false
}

// counts returns the lines of the field name that count among these kinds.
func (q *Request) counts(kinds Kinds, name string, lines []string) []string {
	switch kind := q.policy.kind(name); {
	case kind&kinds == 0:
		return nil
	case name == "Baggage":
		return members(lines, func(m string) bool { return !ofTracer(m) })
	case name == "Prefer":
		return members(lines, asksForAForm)
	case name == "X-Forwarded-Client-Cert":
		return withoutHashes(lines)
	case q.Read && (name == "Idempotency-Key" || strings.HasPrefix(name, "Content-")): // the fields of the body are in the key
		return nil
	}
	return lines
}

// members returns the members of a list that count.
func members(lines []string, counts func(member string) bool) []string {
	var all []string
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			if member = trim(member); member != "" && counts(member) {
				all = append(all, member)
			}
		}
	}
	return all
}

// withoutHashes returns the lines of X-Forwarded-Client-Cert (Envoy) without the hashes of
// certificates that have a SPIFFE ID. That names the workload (SPIFFE, X.509-SVID, 2);
// each of its instances has a certificate, which a mesh renews every few hours.
func withoutHashes(lines []string) []string {
	var all []string
	for _, line := range lines {
		elements, ok := splitQuoted(line, ',')
		if !ok {
			return lines
		}
		for _, element := range elements {
			pairs, _ := splitQuoted(element, ';')
			has := func(prefix string) func(string) bool {
				return func(pair string) bool {
					return len(pair) >= len(prefix) && strings.EqualFold(pair[:len(prefix)], prefix)
				}
			}
			if slices.ContainsFunc(pairs, has("URI=spiffe://")) {
				pairs = slices.DeleteFunc(pairs, has("Hash="))
			}
			all = append(all, strings.Join(pairs, ";"))
		}
	}
	return all
}

// splitQuoted splits s at sep, but not in a quoted string. It reports false if one does not
// end.
func splitQuoted(s string, sep byte) (parts []string, ok bool) {
	quoted, begin := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			parts, begin = append(parts, trim(s[begin:i])), i+1
		}
	}
	return append(parts, trim(s[begin:])), !quoted
}

// ofTracer reports whether a member of Baggage (W3C) belongs to Sentry or Datadog, whose
// members change with each request.
func ofTracer(member string) bool {
	return strings.HasPrefix(member, "sentry-") || strings.HasPrefix(member, "dd-") || strings.HasPrefix(member, "_dd.")
}

// asksForAForm reports whether a preference (RFC 7240) asks for another form of the
// response, and not for when to respond, or how strictly to read the request.
func asksForAForm(member string) bool {
	name, _, _ := strings.Cut(member, ";")
	name, _, _ = strings.Cut(name, "=")
	switch strings.ToLower(trim(name)) {
	case "respond-async", "wait", "handling":
		return false
	}
	return true
}

// digestSize is the length of the digest of what counts.
const digestSize = sha256.Size

// digest returns the digest of what counts in q among these kinds, and whether anything
// does.
func (q *Request) digest(kinds Kinds) (sum [digestSize]byte, some bool) {
	if q.kinds&kinds == 0 {
		return sum, false
	}
	type field struct {
		name  string
		lines []string
	}
	var few [24]field
	fields := few[:0]
	for name, lines := range q.Fields {
		if len(lines) > 0 && name != "" {
			if lines = q.counts(kinds, name, lines); len(lines) > 0 {
				fields = append(fields, field{name, lines})
			}
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	var text [1024]byte
	b := text[:0]
	for _, f := range fields {
		b = binary.AppendUvarint(appendText(b, f.name), uint64(len(f.lines)))
		for _, line := range f.lines {
			b = appendText(b, line)
		}
	}
	if from := address(q.from); kinds&kindAddress != 0 && from != "" {
		b = appendText(append(b, 0, 'a'), from) // no name is empty
	}
	if kinds&kindUnknown != 0 {
		if identity := q.identity(); identity != "" {
			b = appendText(append(b, 0, 'i'), identity)
		}
		if c := certificate(q.from); len(c) > 0 {
			one := sha256.Sum256(c)
			b = append(append(b, 0, 'c'), one[:]...)
		}
	}
	if len(b) == 0 {
		return sum, false
	}
	return sha256.Sum256(b), true
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendCounts appends what q has of these kinds: a digest, or "-" for nothing.
func appendCounts(b []byte, kinds Kinds, q *Request) []byte {
	sum, some := q.digest(kinds)
	if !some {
		return append(b, '-')
	}
	return append(append(b, '+'), sum[:]...)
}

// cutOfCounts removes from the front of s what appendCounts would append.
func cutOfCounts(s string, kinds Kinds, q *Request) (rest string, ok bool) {
	sum, some := q.digest(kinds)
	if !some {
		return strings.CutPrefix(s, "-")
	}
	if s, ok = strings.CutPrefix(s, "+"); !ok || len(s) < digestSize || s[:digestSize] != string(sum[:]) {
		return s, false
	}
	return s[digestSize:], true
}

// anyOrigin reports whether a response with the fields h allows all origins the same.
func anyOrigin(h http.Header) bool {
	return len(h["Access-Control-Allow-Origin"]) == 1 && trim(h["Access-Control-Allow-Origin"][0]) == "*" && len(h["Access-Control-Allow-Credentials"]) == 0
}

// Fingerprinted returns the lines of the field name, which is canonical, in which two
// requests with one Idempotency-Key must be equal: those that count, and conditions, but not
// the fields that identify the client or its address.
func Fingerprinted(name string, lines []string) []string {
	switch {
	case name == "Idempotency-Key", IsCredential(name), slices.Contains(addresses, name), name == "Forwarded":
		return nil
	case strings.HasPrefix(name, "If-"):
		return lines // a condition of an unsafe request is part of it
	}
	return new(Request).counts(^kindAddress, name, lines)
}

// IsCredential reports whether the field name, which is canonical, is known to carry a
// credential or a user.
func IsCredential(name string) bool {
	return name == "Authorization" || name == "Cookie" || known[name]&kindIdentity != 0
}

// NamesUser reports whether the field name, which is canonical, is known to name a user or a
// tenant, and does not only prove who the client is.
func NamesUser(name string) bool { return slices.Contains(users, name) }
