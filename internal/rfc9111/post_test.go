package rfc9111_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH29_WhichPostsAnswerALaterGet(t *testing.T) {
	const fresh, here = "max-age=60", "/a?b=1"
	tests := []struct {
		name   string
		p      rfc9111.Policy
		req    http.Header
		status int
		h      http.Header
		want   string
	}{
		{"located here", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", here), ""},
		{"with scheme and host", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "HTTP://SHOP.example:80/a?b=1"), ""},
		{"relative", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "?b=1"), ""},
		{"Expires", *origin, noFields, 200, fields("Expires", httpTime(time.Minute), "Content-Location", here), ""},
		{"no Content-Location", *origin, noFields, 200, fields("Cache-Control", fresh), rfc9111.ReasonMethod},
		{"an empty one", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", ""), rfc9111.ReasonMethod},
		{"two", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", here, "Content-Location", here), rfc9111.ReasonMethod},
		{"another query", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "/a?b=2"), rfc9111.ReasonMethod},
		{"another path", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "/b?b=1"), rfc9111.ReasonMethod},
		{"another host", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "http://shop.test/a?b=1"), rfc9111.ReasonMethod},
		{"another scheme", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "https://shop.example/a?b=1"), rfc9111.ReasonMethod},
		{"another port", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "http://shop.example:81/a?b=1"), rfc9111.ReasonMethod},
		{"a user", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "http://ada@shop.example/a?b=1"), rfc9111.ReasonMethod},
		{"a fragment", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", here+"#c"), rfc9111.ReasonMethod},
		{"not a URL", *origin, noFields, 200, fields("Cache-Control", fresh, "Content-Location", "http://[/"), rfc9111.ReasonMethod},
		{"created", *origin, noFields, 201, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonMethod},
		{"a part", *origin, noFields, 206, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonStatus},
		{"a condition", *origin, fields("If-Match", `"1"`), 200, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonMethod},
		{"no freshness", *origin, noFields, 200, fields("Content-Location", here), rfc9111.ReasonFreshness},
		{"a validator without freshness", *origin, noFields, 200, fields("Etag", `"1"`, "Cache-Control", "max-age=0", "Content-Location", here), rfc9111.ReasonStale},
		{"freshness of the policy", rfc9111.Policy{TTL: time.Hour}, noFields, 200, fields("Content-Location", here), rfc9111.ReasonFreshness},
		{"a guess", rfc9111.Policy{Heuristic: 1}, noFields, 200, fields("Last-Modified", httpTime(-time.Hour), "Content-Location", here), rfc9111.ReasonFreshness},
		{"old on arrival", *origin, noFields, 200, fields("Cache-Control", fresh, "Age", "60", "Content-Location", here), rfc9111.ReasonStale},
		{"no-cache", *origin, noFields, 200, fields("Cache-Control", fresh+", no-cache", "Etag", `"1"`, "Content-Location", here), rfc9111.ReasonNoCache},
		{"no-store", *origin, noFields, 200, fields("Cache-Control", fresh+", no-store", "Content-Location", here), rfc9111.ReasonNoStore},
		{"private", *origin, noFields, 200, fields("Cache-Control", fresh+", private", "Content-Location", here), rfc9111.ReasonPrivate},
		{"private by force", rfc9111.Policy{TTL: time.Hour, Force: true}, noFields, 200, fields("Cache-Control", fresh+", private", "Content-Location", here), rfc9111.ReasonPrivate},
		{"Set-Cookie", *origin, noFields, 200, fields("Cache-Control", fresh, "Set-Cookie", "a=b", "Content-Location", here), rfc9111.ReasonSetCookie},
		{"Vary: *", *origin, noFields, 200, fields("Cache-Control", fresh, "Vary", "*", "Content-Location", here), rfc9111.ReasonVary},
		{"no-store of the client", *origin, fields("Cache-Control", "no-store"), 200, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonRequestNoStore},
		{"Authorization", *origin, fields("Authorization", "x"), 200, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonAuthorization},
		{"Cookie", *origin, fields("Cookie", "x=1"), 200, fields("Cache-Control", fresh, "Content-Location", here), rfc9111.ReasonCookie},
		{"Authorization and public", *origin, fields("Authorization", "x"), 200, fields("Cache-Control", fresh+", public", "Content-Location", here), ""},
	}
	for _, tt := range tests {
		r := &http.Request{Method: http.MethodPost, Host: "shop.example", URL: &url.URL{Path: "/a", RawQuery: "b=1"}, Header: tt.req}
		got := tt.p.ReadPost(r, tt.p.ReadRequest(tt.req), "http", here, tt.status, tt.h, t0, t0)
		if got.Reason != tt.want || got.Storable != (tt.want == "") || got.Shared || r.Method != http.MethodPost {
			t.Errorf("%s: ReadPost = stored %v, reason %q, sharing %v; want reason %q, and it is not shared", tt.name, got.Storable, got.Reason, got.Shared, tt.want)
		}
	}
}
