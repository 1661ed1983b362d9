package judge

import (
	"net/http"
	"regexp"
	"strings"
)

// A Kind says what a request field is about, and with that in which cases two requests
// that differ in it are different.
type Kind string

// The kinds of decision 0090.
const (
	KindRequest     Kind = "request"     // names of requests and traces: never counts
	KindCondition   Kind = "condition"   // evaluated per request: never counts
	KindProgram     Kind = "program"     // about the client program: never counts
	KindRepeat      Kind = "repeat"      // not for a declared read
	KindPage        Kind = "page"        // Referer: taken off the call where the route states a lifetime
	KindNegotiation Kind = "negotiation" // unless the route states a lifetime
	KindAddress     Kind = "address"     // without a stated lifetime
	KindForwarding  Kind = "forwarding"  // always
	KindPart        Kind = "part"        // always
	KindIdentity    Kind = "identity"    // unless the origin says public or s-maxage
	KindOrigin      Kind = "origin"      // unless the response is for every origin
	KindUnknown     Kind = "unknown"     // in the strict rule
	KindOverride    Kind = "override"    // always: a request with one bypasses the cache
	KindCredential  Kind = "credential"  // by the rules of RFC 9111 for Authorization
	KindBody        Kind = "body"        // describes the body: part of the key of a read
	KindBaggage     Kind = "baggage"     // by its members
)

// names is the table of decision 0090, by canonical names. "*" at the end is a prefix.
var names = map[Kind]string{
	KindRequest: `Traceparent Tracestate B3 X-B3-* Sentry-Trace Uber-Trace-Id X-Request-Id X-Correlation-Id
		Request-Id Correlation-Id X-Cloud-Trace-Context X-Amzn-Trace-Id X-Amz-Cf-Id Cf-Ray X-Azure-Ref
		Fly-Request-Id X-Vercel-Id X-Varnish Postman-Token Amz-Sdk-Invocation-Id Amz-Sdk-Request
		X-Ms-Client-Request-Id X-Client-Request-Id Client-Request-Id X-Datadog-Trace-Id
		X-Datadog-Parent-Id X-Datadog-Sampling-Priority X-Datadog-Origin X-Datadog-Tags Newrelic
		X-Newrelic-Id X-Newrelic-Transaction Elastic-Apm-Traceparent X-Ot-Span-Context L5d-Ctx-Trace
		X-Envoy-Attempt-Count X-Envoy-Expected-Rq-Timeout-Ms X-Envoy-Decorator-Operation
		X-Envoy-Peer-Metadata X-Envoy-Peer-Metadata-Id X-Request-Start X-Queue-Start X-Timer
		Connect-Time Total-Route-Time Date X-Ms-Date Via Cdn-Loop Fastly-Ff Weir-Job-Attempt Weir-Job-Fence`,
	KindCondition:   `If-* Range Cache-Control Pragma Content-Length`,
	KindProgram:     `User-Agent Sec-Ch-Ua* Sec-Fetch-* Priority X-Stainless-* X-Goog-Api-Client X-Amz-User-Agent X-Ms-Useragent`,
	KindRepeat:      `Idempotency-Key`,
	KindPage:        `Referer`,
	KindNegotiation: `Accept Accept-Language Accept-Encoding`,
	KindAddress:     `X-Forwarded-For X-Real-Ip`, // and "for" of Forwarded
	KindForwarding:  `X-Forwarded-* X-Scheme X-Url-Scheme X-Original-Host X-Original-Proto Front-End-Https Cf-Visitor`,
	KindPart: `Hx-Request Hx-Boosted Hx-Target Turbo-Frame X-Inertia X-Inertia-* Rsc Next-Router-* Next-Url
		X-Requested-With X-Pjax X-Fragment Prefer X-Nextjs-Data X-Middleware-Prefetch`,
	// The reference's list of DefaultIdentity.
	KindIdentity: `Api-Key Apikey Ocp-Apim-Subscription-Key X-Access-Token X-Amz-Security-Token
		X-Api-Key X-Api-Token X-Apikey X-Auth-Key X-Auth-Token X-Authorization X-Goog-Api-Key X-Session-Id
		X-Session-Token X-Subscription-Token X-Token Remote-User X-Auth-Request-Email X-Auth-Request-User
		X-Authenticated-User X-Client-Cert X-Goog-Authenticated-User-Id X-Remote-User X-Ssl-Client-Cert
		X-Amzn-Oidc-Data X-Amzn-Oidc-Identity Cf-Access-Jwt-Assertion L5d-Client-Id X-Scope-Orgid Mcp-Session-Id
		Openai-Organization Openai-Project X-Account-Id X-Org-Id X-Organization X-Tenant X-Tenant-Id X-User X-User-Id`,
	KindOrigin: `Origin`,
	// Of the fields that finding 4 names, those that are neither of a proxy nor an address.
	KindOverride: `X-Middleware-Subrequest X-Now-Route-Matches
		X-Matched-Path X-Invoke-Path X-Ms-Original-Url X-Http-Method-Override X-Method-Override X-Original-Url
		X-Rewrite-Url`,
	KindCredential: `Authorization Cookie`,
	KindBody:       `Content-Type Content-Encoding Content-Language Content-Location`,
	KindBaggage:    `Baggage`,
}

var exact, prefixes = readTable()

func readTable() (exact, prefixes map[string]Kind) {
	exact, prefixes = map[string]Kind{}, map[string]Kind{}
	for kind, list := range names {
		for _, name := range strings.Fields(list) {
			if prefix, ok := strings.CutSuffix(name, "*"); ok {
				prefixes[prefix] = kind
			} else {
				exact[name] = kind
			}
		}
	}
	return exact, prefixes
}

// Names returns the names of the table with their kinds. A name that ends in "*" is a
// prefix.
func Names() map[string]Kind {
	all := map[string]Kind{}
	for name, kind := range exact {
		all[name] = kind
	}
	for prefix, kind := range prefixes {
		all[prefix+"*"] = kind
	}
	return all
}

// KindOf returns the kind of a field. Forwarded depends on its value: it is an address if
// it has only "for", and otherwise names another host or scheme.
func KindOf(name string, lines []string) Kind {
	name = http.CanonicalHeaderKey(name)
	if name == "Forwarded" {
		for _, member := range strings.FieldsFunc(strings.Join(lines, ","), func(r rune) bool { return r == ',' || r == ';' }) {
			if key, _, _ := strings.Cut(strings.TrimSpace(member), "="); !strings.EqualFold(key, "for") {
				return KindOverride
			}
		}
		return KindAddress
	}
	if kind, ok := exact[name]; ok {
		return kind
	}
	for prefix, kind := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	return KindUnknown
}

// never reports whether a field of that kind counts in no case.
func (k Kind) never() bool {
	return k == KindRequest || k == KindCondition || k == KindProgram
}

var hashOfCertificate = regexp.MustCompile(`(?i)\bhash=[0-9a-f]+;?`)

// workloads returns X-Forwarded-Client-Cert without the hashes of certificates that have a
// SPIFFE ID.
func workloads(lines []string) []string {
	var all []string
	for _, element := range strings.Split(strings.Join(lines, ","), ",") {
		if strings.Contains(strings.ToLower(element), "uri=spiffe://") {
			element = hashOfCertificate.ReplaceAllString(element, "")
		}
		all = append(all, strings.Trim(element, "; "))
	}
	return all
}

// countedBaggage leaves out the members of Baggage that a tracer owns.
func countedBaggage(lines []string) []string {
	var counted []string
	for _, member := range strings.Split(strings.Join(lines, ","), ",") {
		member = strings.TrimSpace(member)
		if member != "" && !strings.HasPrefix(member, "sentry-") && !strings.HasPrefix(member, "dd-") {
			counted = append(counted, member)
		}
	}
	return counted
}
