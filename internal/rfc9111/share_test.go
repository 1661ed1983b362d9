package rfc9111_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH2_WhatMayBeShared(t *testing.T) {
	tests := []struct {
		status int
		nv     []string
		want   rfc9111.Sharing
	}{
		{200, nil, rfc9111.Alike},
		{200, []string{"Etag", `"a"`}, rfc9111.Alike},
		{200, []string{"Cache-Control", "max-age=60"}, rfc9111.Anyone},
		{200, []string{"Expires", httpTime(sec)}, rfc9111.Anyone},
		{200, []string{"Cache-Control", "max-age=60", "Age", "60"}, rfc9111.Anyone},
		{200, []string{"Cache-Control", "max-age=0"}, rfc9111.Alike},
		{200, []string{"Expires", "0"}, rfc9111.Alike},
		{500, nil, rfc9111.Alike},
		{404, nil, rfc9111.Alike},
		{200, []string{"Cache-Control", "no-store"}, rfc9111.Nobody},
		{200, []string{"Cache-Control", "max-age=60, private"}, rfc9111.Nobody},
		{200, []string{"Cache-Control", "max-age=60, no-cache"}, rfc9111.Nobody},
		{200, []string{"Cache-Control", "max-age=60", "Set-Cookie", "a=b"}, rfc9111.Nobody},
		{200, []string{"Cache-Control", "max-age=60", "Vary", "*"}, rfc9111.Nobody},
	}
	for _, status := range []int{103, 206, 304, 401, 403, 407, 429} {
		tests = append(tests, struct {
			status int
			nv     []string
			want   rfc9111.Sharing
		}{status, []string{"Cache-Control", "max-age=60"}, rfc9111.Nobody})
	}
	for _, tt := range tests {
		r := read(origin, noFields, tt.status, fields(tt.nv...))
		if r.Sharing != tt.want || r.Sharing == rfc9111.Nobody && !r.Storable && r.Reason == "" {
			t.Errorf("Read(%d, %q).Sharing = %d, %q; want %d", tt.status, tt.nv, r.Sharing, r.Reason, tt.want)
		}
		alike := origin.MayShare(&r, noFields, noFields, plain)
		if alike != (tt.want != rfc9111.Nobody) {
			t.Errorf("Read(%d, %q): MayShare(equal) = %v; want %v", tt.status, tt.nv, alike, !alike)
		}
		other := origin.MayShare(&r, noFields, fields("Accept", "x"), plain)
		if other != (tt.want == rfc9111.Anyone) {
			t.Errorf("Read(%d, %q): MayShare(other) = %v; want %v", tt.status, tt.nv, other, !other)
		}
	}
}

func TestH2_WithoutFreshnessFieldsMustBeEqual(t *testing.T) {
	r := read(origin, noFields, 200, noFields)
	leader := []string{"Accept", "text/html", "User-Agent", "a"}
	tests := []struct {
		waiter []string
		want   bool
	}{
		{leader, true},
		{[]string{"Accept", "text/html"}, true},
		{[]string{"Accept", "text/html", "User-Agent", "b", "Referer", "c"}, true},
		{[]string{"Accept", "text/html", "Traceparent", "1", "Baggage", "1", "X-B3-Traceid", "2", "X-Request-Id", "3"}, true},
		{[]string{"Accept", "text/html", "X-Forwarded-For", "192.0.2.1", "X-Real-Ip", "192.0.2.1", "Via", "1.1 a"}, true},
		{[]string{"Accept", "text/html", "Sec-Fetch-Mode", "cors", "Sec-Ch-Ua-Mobile", "?1"}, true},
		{[]string{"Accept", "text/html", "Cache-Control", "max-age=0", "Pragma", "no-cache"}, true},
		{[]string{"Accept", "text/html", "If-None-Match", `"a"`, "Range", "bytes=0-1", "If-Range", `"a"`}, true},
		{[]string{"Accept", "text/html", "Connection", "keep-alive, x-hop", "X-Hop", "1", "Te", "trailers"}, true},
		{[]string{"Accept", "text/plain"}, false},
		{[]string{}, false},
		{[]string{"Accept", "text/html", "Accept", "text/html"}, false},
		{[]string{"Accept", "text/html", "Accept-Language", "de"}, false},
		{[]string{"Accept", "text/html", "X-Tenant", ""}, false},
		{[]string{"Accept", "text/html", "Connection", "accept"}, false},
		{[]string{"Accept", "text/html", "Origin", "https://example.com"}, false},
		// Origins build links from these.
		{[]string{"Accept", "text/html", "X-Forwarded-Host", "example.com"}, false},
		{[]string{"Accept", "text/html", "X-Forwarded-Proto", "http"}, false},
		{[]string{"Accept", "text/html", "Forwarded", "host=example.com"}, false},
	}
	for _, tt := range tests {
		l, w := fields(leader...), fields(tt.waiter...)
		if got := origin.MayShare(&r, l, w, rfc9111.ReadRequest(w)); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", l, w, got, tt.want)
		}
		if got := origin.MayShare(&r, w, l, rfc9111.ReadRequest(l)); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", w, l, got, tt.want)
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
		{fields("Accept-Language", "en"), false},
		{noFields, false},
	}
	leader := fields("Accept-Language", "de, en")
	for _, tt := range tests {
		if got := origin.MayShare(&r, leader, tt.waiter, plain); got != tt.want {
			t.Errorf("MayShare(%v, %v) = %v; want %v", leader, tt.waiter, got, tt.want)
		}
	}
}

func TestH3_SharingWithCredentials(t *testing.T) {
	apart := &rfc9111.Policy{Vary: []string{"Authorization"}}
	a, b := fields("Authorization", "a"), fields("Authorization", "b")
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
		{"public without freshness", origin, "public", a, b, false},
		{"public without freshness, the same", origin, "public", a, a, true},
		{"kept apart, the same", apart, fresh, a, a, true},
		{"kept apart, another", apart, fresh, a, b, false},
		{"kept apart, one without", apart, fresh, a, noFields, false},
		{"kept apart, without freshness", apart, "", a, a, true},
		{"kept apart, not by Cookie", apart, fresh, noFields, cookie, false},
	}
	for _, tt := range tests {
		r := read(tt.p, tt.leader, 200, fields("Cache-Control", tt.cacheControl))
		if got := tt.p.MayShare(&r, tt.leader, tt.waiter, rfc9111.ReadRequest(tt.waiter)); got != tt.want {
			t.Errorf("%s: MayShare(%v, %v) = %v; want %v", tt.name, tt.leader, tt.waiter, got, tt.want)
		}
	}
}

func TestIndifferentIsACopy(t *testing.T) {
	list := rfc9111.Indifferent()
	if !slices.Contains(list, "User-Agent") || slices.Contains(list, "Accept") {
		t.Errorf("Indifferent() = %q", list)
	}
	clear(list)
	if !slices.Contains(rfc9111.Indifferent(), "User-Agent") {
		t.Error("Indifferent() returns the list itself, not a copy")
	}
}
