package rfc9111_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// The route's ttl overrides no-cache for event streams, and nothing else (H33, H2, H3).
func TestH33_WhatTheRouteOverrides(t *testing.T) {
	const ttl = 10 * time.Minute
	both := rfc9111.Authorization | rfc9111.Cookie
	for name, row := range map[string]struct {
		response []string // name, value, ...
		request  []string
		reason   string
		admits   rfc9111.Credentials
	}{
		"nothing stated":              {nil, nil, "", 0},
		"no-cache":                    {[]string{"Cache-Control", "no-cache"}, nil, "", 0},
		"no-cache, max-age=0":         {[]string{"Cache-Control", "no-cache, max-age=0"}, nil, "", 0},
		"Expires in the past":         {[]string{"Expires", "0"}, nil, "", 0},
		"no-store":                    {[]string{"Cache-Control", "no-store"}, nil, rfc9111.ReasonNoStore, 0},
		"no-cache, no-store":          {[]string{"Cache-Control", "no-cache, no-store"}, nil, rfc9111.ReasonNoStore, 0},
		"private":                     {[]string{"Cache-Control", "private"}, nil, rfc9111.ReasonPrivate, 0},
		"private for CDNs":            {[]string{"Cache-Control", "public", "CDN-Cache-Control", "private"}, nil, rfc9111.ReasonPrivate, 0},
		"Set-Cookie":                  {[]string{"Set-Cookie", "a=b"}, nil, rfc9111.ReasonSetCookie, 0},
		"Vary: *":                     {[]string{"Vary", "*"}, nil, rfc9111.ReasonVary, 0},
		"the client's no-store":       {nil, []string{"Cache-Control", "no-store"}, rfc9111.ReasonRequestNoStore, 0},
		"Authorization":               {nil, []string{"Authorization", "x"}, rfc9111.ReasonAuthorization, 0},
		"Cookie":                      {nil, []string{"Cookie", "x=y"}, rfc9111.ReasonCookie, 0},
		"public":                      {[]string{"Cache-Control", "public"}, []string{"Authorization", "x"}, "", both},
		"must-revalidate":             {[]string{"Cache-Control", "must-revalidate"}, []string{"Authorization", "x"}, "", rfc9111.Authorization},
		"no-cache, must-revalidate":   {[]string{"Cache-Control", "no-cache, must-revalidate"}, []string{"Authorization", "x"}, rfc9111.ReasonAuthorization, 0},
		"no-cache, public":            {[]string{"Cache-Control", "no-cache, public"}, []string{"Authorization", "x"}, rfc9111.ReasonAuthorization, 0},
		"no-cache, s-maxage":          {[]string{"Cache-Control", "no-cache, s-maxage=60"}, []string{"Cookie", "x=y"}, rfc9111.ReasonCookie, 0},
		"no-cache, without a request": {[]string{"Cache-Control", `no-cache="x"`}, nil, "", 0},
	} {
		for _, force := range []bool{false, true} {
			p := rfc9111.Policy{TTL: time.Second, Force: force}
			r := &http.Request{Method: "GET", Header: fieldsOf(row.request)}
			now := time.Now()
			got := p.ReadEvents(r, rfc9111.ReadRequest(r.Header), 200, fieldsOf(row.response), ttl, now, now)
			if got.Reason != row.reason || got.Storable != (row.reason == "") || got.Admits != row.admits {
				t.Errorf("%s, Force %v: %q, storable %v, admits %v; want %q, %v", name, force, got.Reason, got.Storable, got.Admits, row.reason, row.admits)
			}
			if row.reason == "" && (got.Lifetime != ttl || !alike(got) || got.Validate) {
				t.Errorf("%s: lifetime %v, sharing %v, validate %v; want %v, in which all that counts is equal, false", name, got.Lifetime, got.Shared, got.Validate, ttl)
			}
			if row.reason != "" && got.Shared {
				t.Errorf("%s: sharing %v; want none", name, got.Shared)
			}
		}
	}
}

// A request for events and one for anything else select different responses.
func TestH33_AcceptSelects(t *testing.T) {
	vary := []string{"Accept-Language", rfc9111.AcceptEvents, "cookie:a"}
	for i, a := range []string{"", "text/event-stream", "application/json", "*/*", "application/json, text/event-stream;q=0.5", "Text/Event-Stream"} {
		for j, b := range []string{"", "text/event-stream", "application/json", "*/*", "application/json, text/event-stream;q=0.5", "Text/Event-Stream"} {
			events := map[int]bool{1: true, 4: true, 5: true}
			first, second := fieldsOf([]string{"Accept", a, "Accept-Language", "de"}), fieldsOf([]string{"Accept", b, "Accept-Language", "de"})
			same := events[i] == events[j]
			if got := matches(vary, selecting(vary, first), second); got != same {
				t.Errorf("Matches of Accept %q and %q = %v; want %v", a, b, got, same)
			}
			if got := selecting(vary, first) == selecting(vary, second); got != same {
				t.Errorf("Selecting of Accept %q and %q equal: %v; want %v", a, b, got, same)
			}
		}
	}
}

func fieldsOf(pairs []string) http.Header {
	h := make(http.Header)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h.Add(pairs[i], pairs[i+1])
		}
	}
	return h
}
