package rfc9111_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

// The three ways to share in flight.
const (
	alone  = "the leader alone"
	strict = "requests in which all that counts is equal"
	words  = "all that the origin's words allow"
)

func sharing(r rfc9111.Response) string {
	switch {
	case !r.Shared:
		return alone
	case rfc9111.Strict(r.Vary):
		return strict
	}
	return words
}

func TestH2_WhatMayBeShared(t *testing.T) {
	type row struct {
		status int
		nv     []string
		want   string
	}
	tests := []row{
		{200, nil, strict},
		{200, []string{"Etag", `"a"`}, strict},
		{200, []string{"Cache-Control", "max-age=60"}, words},
		{200, []string{"Cache-Control", "s-maxage=60"}, words},
		{200, []string{"Cache-Control", "public"}, words},
		{200, []string{"Expires", httpTime(sec)}, words},
		{200, []string{"Cache-Control", "max-age=60", "Age", "60"}, words},
		{200, []string{"Cache-Control", "max-age=0, stale-while-revalidate=60"}, words},
		{200, []string{"Cache-Control", "max-age=0"}, strict},
		{200, []string{"Expires", "0"}, strict},
		{500, nil, strict},
		{404, nil, strict},
		{200, []string{"Cache-Control", "no-store"}, alone},
		{200, []string{"Cache-Control", "max-age=60, private"}, alone},
		{200, []string{"Cache-Control", "max-age=60, no-cache"}, alone},
		{200, []string{"Cache-Control", "max-age=60", "Set-Cookie", "a=b"}, alone},
		{200, []string{"Cache-Control", "max-age=60", "Vary", "*"}, alone},
		{200, []string{"Cache-Control", "max-age=60", "Content-Range", "items 0-4/*"}, alone},
	}
	for _, status := range []int{103, 206, 304, 401, 403, 407, 408, 412, 416, 417, 421, 425, 426, 428, 429, 431, 511} {
		tests = append(tests, row{status, []string{"Cache-Control", "max-age=60"}, alone})
	}
	for _, tt := range tests {
		r := read(origin, noFields, tt.status, fields(tt.nv...))
		if got := sharing(r); got != tt.want || got == alone && !r.Storable && r.Reason == "" {
			t.Errorf("Read(%d, %q) is for %s, %q; want %s", tt.status, tt.nv, got, r.Reason, tt.want)
		}
		if equal := mayShare(origin, &r, noFields, noFields); equal != (tt.want != alone) {
			t.Errorf("Read(%d, %q): MayShare(equal) = %v; want %v", tt.status, tt.nv, equal, !equal)
		}
		if other := mayShare(origin, &r, noFields, fields("X-New", "x")); other != (tt.want == words) {
			t.Errorf("Read(%d, %q): MayShare(other) = %v; want %v", tt.status, tt.nv, other, !other)
		}
	}
}

// H2: where the route states the lifetime, unknown fields count, and negotiation and the
// address do not. The origin's own words suspend that, unless Force overrides one of them.
func TestH2_WhoseWordsCount(t *testing.T) {
	ttl, force := &rfc9111.Policy{TTL: sec}, &rfc9111.Policy{TTL: sec, Force: true}
	for _, tt := range []struct {
		name string
		p    *rfc9111.Policy
		cc   string
		want string
	}{
		{"ttl over a silent origin", ttl, "", strict},
		{"ttl over max-age=0", ttl, "max-age=0", strict},
		{"ttl over max-age", ttl, "max-age=5", words},
		{"ttl over public", ttl, "public", words},
		{"force over no-store", force, "no-store, max-age=5", strict},
		{"force over private", force, "private, public", strict},
		{"force over nothing", force, "max-age=5", words},
		{"a heuristic", &rfc9111.Policy{Heuristic: 0.1}, "", strict},
		{"a private cache", &rfc9111.Policy{Private: true}, "max-age=5", strict},
	} {
		r := read(tt.p, noFields, 200, fields("Cache-Control", tt.cc, "Last-Modified", httpTime(-1000*sec)))
		if got := sharing(r); got != tt.want {
			t.Errorf("%s: it is for %s; want %s", tt.name, got, tt.want)
		}
	}
	r := read(ttl, fields("Accept", "a"), 200, noFields)
	for _, tt := range []struct {
		waiter []string
		want   bool
	}{
		{[]string{"Accept", "b", "Accept-Language", "de", "Referer", "x"}, true},
		{[]string{"X-Api-Key", "alice"}, false},
		{[]string{"Dnt", "1"}, false},
		{[]string{"X-Original-Url", "/admin"}, false},
	} {
		if got := mayShare(ttl, &r, fields("Accept", "a"), fields(tt.waiter...)); got != tt.want {
			t.Errorf("under ttl, MayShare with %q = %v; want %v", tt.waiter, got, tt.want)
		}
	}
}

func TestH2_WithoutFreshnessFieldsMustBeEqual(t *testing.T) {
	r := read(origin, fields("Accept", "text/html", "User-Agent", "a"), 200, noFields)
	leader := []string{"Accept", "text/html", "User-Agent", "a"}
	tests := []struct {
		waiter []string
		want   bool
	}{
		{leader, true},
		{[]string{"Accept", "text/html"}, true},
		{[]string{"Accept", "text/html", "User-Agent", "b"}, true},
		{[]string{"Accept", "text/html", "Traceparent", "1", "X-B3-Traceid", "2", "X-Request-Id", "3", "X-Datadog-Trace-Id", "4"}, true},
		{[]string{"Accept", "text/html", "Baggage", "sentry-trace_id=1, sentry-sampled=true"}, true},
		{[]string{"Accept", "text/html", "Baggage", "sentry-trace_id=1, tenant=a"}, false},
		{[]string{"Accept", "text/html", "Via", "1.1 a"}, true},
		{[]string{"Accept", "text/html", "Prefer", "respond-async, wait=10"}, true},
		{[]string{"Accept", "text/html", "Prefer", "wait=10, return=minimal"}, false},
		{[]string{"Accept", "text/html", "Sec-Fetch-Mode", "cors", "Sec-Ch-Ua-Mobile", "?1"}, true},
		{[]string{"Accept", "text/html", "Cache-Control", "max-age=0", "Pragma", "no-cache"}, true},
		{[]string{"Accept", "text/html", "If-None-Match", `"a"`, "Range", "bytes=0-1", "If-Range", `"a"`}, true},
		{[]string{"Accept", "text/html", "Connection", "keep-alive", "Te", "trailers"}, true},
		{[]string{"Accept", "text/html", "X-Amzn-Oidc-Data", "alice"}, false},
		{[]string{"Accept", "text/html", "X-Forwarded-For", "192.0.2.1"}, false},
		{[]string{"Accept", "text/html", "X-Real-Ip", "192.0.2.1"}, false},
		{[]string{"Accept", "text/html", "Referer", "c"}, false},
		{[]string{"Accept", "text/plain"}, false},
		{[]string{}, false},
		{[]string{"Accept", "text/html", "Accept", "text/html"}, false},
		{[]string{"Accept", "text/html", "Accept-Language", "de"}, false},
		{[]string{"Accept", "text/html", "X-Tenant", ""}, false},
		{[]string{"Accept", "text/html", "Origin", "https://example.com"}, false},
		// Origins build links from these.
		{[]string{"Accept", "text/html", "X-Forwarded-Host", "example.com"}, false},
		{[]string{"Accept", "text/html", "X-Forwarded-Proto", "http"}, false},
		{[]string{"Accept", "text/html", "Forwarded", "host=example.com"}, false},
	}
	for _, tt := range tests {
		l, w := fields(leader...), fields(tt.waiter...)
		if got := mayShare(origin, &r, l, w); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", l, w, got, tt.want)
		}
		if got := mayShare(origin, &r, w, l); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", w, l, got, tt.want)
		}
	}
}

// H2: what is no field counts too: the address without a stated lifetime, the
// certificate, and what only the program knows.
func TestH2_WhoAsksCounts(t *testing.T) {
	ttl, any := &rfc9111.Policy{TTL: sec}, &rfc9111.Policy{AnyClient: true}
	as := func(p *rfc9111.Policy, address, certificate, identity string) *rfc9111.Request {
		own := *p
		own.Identify = func(r *http.Request) string { return r.Host }
		r := &http.Request{Host: identity, RemoteAddr: address + ":1234"}
		if certificate != "" {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(certificate)}}}
		}
		q := own.ReadRequest(noFields)
		q.From(r)
		return &q
	}
	for _, tt := range []struct {
		name string
		p    *rfc9111.Policy
		who  [3]string
		want bool
	}{
		{"the same", origin, [3]string{"192.0.2.1", "c", "i"}, true},
		{"another address", origin, [3]string{"192.0.2.2", "c", "i"}, false},
		{"another address, of any client", any, [3]string{"192.0.2.2", "c", "i"}, true},
		{"another address under ttl", ttl, [3]string{"192.0.2.2", "c", "i"}, true},
		{"another certificate", ttl, [3]string{"192.0.2.1", "d", "i"}, false},
		{"no certificate", ttl, [3]string{"192.0.2.1", "", "i"}, false},
		{"another identity", ttl, [3]string{"192.0.2.1", "c", "j"}, false},
	} {
		r := read(tt.p, noFields, 200, noFields)
		if got := rfc9111.MayShare(&r, as(tt.p, "192.0.2.1", "c", "i"), as(tt.p, tt.who[0], tt.who[1], tt.who[2])); got != tt.want {
			t.Errorf("%s: MayShare = %v; want %v", tt.name, got, tt.want)
		}
	}
}

// H2: an address that a handler in front has set may have no port. IPv6 addresses that differ
// in their last part only are two.
func TestH2_AddressesWithoutAPort(t *testing.T) {
	from := func(address string) *rfc9111.Request {
		q := origin.ReadRequest(noFields)
		q.From(&http.Request{RemoteAddr: address})
		return &q
	}
	r := read(origin, noFields, 200, noFields)
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"[2001:db8::1]:1", "[2001:db8::1]:2", true},
		{"2001:db8::1", "2001:db8::2", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"192.0.2.1", "192.0.2.2", false},
	} {
		if got := rfc9111.MayShare(&r, from(tt.a), from(tt.b)); got != tt.want {
			t.Errorf("MayShare of %s with %s = %v; want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// H2: what the operator says not to matter is not compared. It never covers what says
// what was requested, or on whose behalf.
func TestH2_UnkeyedFields(t *testing.T) {
	for _, tt := range []struct {
		unkeyed []string
		field   string
		want    bool
	}{
		{[]string{"X-Acme-*"}, "X-Acme-Correlation", true},
		{[]string{"X-Acme-*"}, "X-Other", false},
		{[]string{"*"}, "X-Api-Key", true},
		{[]string{"*"}, "X-Forwarded-Host", false},
		{[]string{"*"}, "X-Original-Url", false},
		{[]string{"*"}, "Origin", false},
	} {
		p := &rfc9111.Policy{TTL: sec, Unkeyed: tt.unkeyed}
		r := read(p, noFields, 200, noFields)
		if got := mayShare(p, &r, noFields, fields(tt.field, "a")); got != tt.want {
			t.Errorf("unkeyed %q: MayShare with %s = %v; want %v", tt.unkeyed, tt.field, got, tt.want)
		}
	}
}

func TestH2_VaryMustMatch(t *testing.T) {
	r := read(origin, noFields, 200, fields("Cache-Control", "max-age=60", "Vary", "Accept-Language"))
	tests := []struct {
		waiter http.Header
		want   bool
	}{
		{fields("Accept-Language", "de,en"), true},
		{fields("Accept-Language", "de", "Accept-Language", "en", "Accept", "x"), true},
		{fields("Accept-Language", "en, de"), false},
		{fields("Accept-Language", "en"), false},
		{noFields, false},
	}
	leader := fields("Accept-Language", "de, en")
	for _, tt := range tests {
		if got := mayShare(origin, &r, leader, tt.waiter); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", leader, tt.waiter, got, tt.want)
		}
	}
}

// H2: a coded response goes to no request that does not accept its coding, whatever Vary
// says.
func TestH2_CodingsMustBeAccepted(t *testing.T) {
	r := read(origin, fields("Accept-Encoding", "gzip"), 200, fields("Cache-Control", "max-age=60", "Content-Encoding", "gzip"))
	for accepts, want := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "*": true, "x-gzip": true,
		"": false, "br": false, "gzip;q=0": false, "*;q=0": false, "gzip;q=0, *": false,
	} {
		if got := mayShare(origin, &r, fields("Accept-Encoding", "gzip"), fields("Accept-Encoding", accepts)); got != want {
			t.Errorf("MayShare with Accept-Encoding: %q = %v; want %v", accepts, got, want)
		}
	}
}

// H2: a response to one of several origins is for that alone, unless it allows all.
func TestH2_OriginCounts(t *testing.T) {
	for allows, want := range map[string]bool{"": false, "https://a.example": false, "*": true} {
		h := fields("Cache-Control", "max-age=60")
		if allows != "" {
			h.Set("Access-Control-Allow-Origin", allows)
		}
		r := read(origin, noFields, 200, h)
		if got := mayShare(origin, &r, noFields, fields("Origin", "https://a.example")); got != want {
			t.Errorf("Access-Control-Allow-Origin: %q: MayShare with Origin = %v; want %v", allows, got, want)
		}
	}
}

func TestH3_SharingWithCredentials(t *testing.T) {
	apart := &rfc9111.Policy{Vary: []string{"Authorization"}}
	a, b := fields("Authorization", "a"), fields("Authorization", "b")
	key, other := fields("X-Api-Key", "a"), fields("X-Api-Key", "b")
	cookie := fields("Cookie", "a=b")
	const fresh, open, must = "max-age=60", "max-age=60, public", "max-age=60, must-revalidate"
	tests := []struct {
		name           string
		p              *rfc9111.Policy
		cacheControl   string
		leader, waiter http.Header
		want           bool
	}{
		{"no permission", origin, fresh, noFields, a, false},
		{"no permission for the leader", origin, fresh, a, noFields, false},
		{"not even with the same credentials", origin, fresh, a, a, false},
		{"public", origin, open, a, b, true},
		{"public, one without", origin, open, a, noFields, true},
		{"public, Cookie", origin, open, cookie, noFields, true},
		{"must-revalidate", origin, must, a, b, true},
		{"must-revalidate is not for Cookie", origin, must, noFields, cookie, false},
		{"public without freshness", origin, "public", a, b, true},
		{"known to be a credential", origin, fresh, key, other, false},
		{"known to be a credential, the same", origin, fresh, key, key, true},
		{"known to be a credential, public", origin, open, key, other, true},
		{"known to be a credential, s-maxage", origin, "s-maxage=60", key, other, true},
		{"kept apart, the same", apart, fresh, a, a, true},
		{"kept apart, another", apart, fresh, a, b, false},
		{"kept apart, one without", apart, fresh, a, noFields, false},
		{"kept apart, without freshness", apart, "", a, a, true},
		{"kept apart, not by Cookie", apart, fresh, noFields, cookie, false},
	}
	for _, tt := range tests {
		r := read(tt.p, tt.leader, 200, fields("Cache-Control", tt.cacheControl))
		if got := mayShare(tt.p, &r, tt.leader, tt.waiter); got != tt.want {
			t.Errorf("%s: MayShare(%v, %v) = %v; want %v", tt.name, tt.leader, tt.waiter, got, tt.want)
		}
	}
}

// H29: a 304 may narrow who gets a response, and never widens it.
func TestH29_A304OnlyNarrows(t *testing.T) {
	stored := read(origin, fields("Accept", "a"), 200, fields("Cache-Control", "max-age=60", "Vary", "Accept"))
	updated := read(origin, fields("Accept", "a"), 200, fields("Cache-Control", "max-age=60, public", "Vary", "Accept-Language"))
	updated.Narrow(&stored)
	if mayShare(origin, &updated, fields("Accept", "a"), fields("Accept", "b")) {
		t.Error("a 304 without the field in its Vary lets another variant have the response")
	}
	if mayShare(origin, &updated, fields("Accept", "a"), fields("Accept", "a", "Accept-Language", "de")) {
		t.Error("the Vary of a 304 has no effect")
	}
	if mayShare(origin, &updated, fields("Accept", "a"), fields("Accept", "a", "Authorization", "x")) {
		t.Error("public in a 304 lets requests with Authorization have the response")
	}
}
