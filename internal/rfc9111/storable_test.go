package rfc9111_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH10_StoringByStatus(t *testing.T) {
	never := []int{100, 103, 199, 206, 304, 407, 428, 429, 431, 511, 600, 0}
	for _, status := range never {
		r := read(origin, noFields, status, fields("Cache-Control", "max-age=60, public"))
		if r.Storable || r.Shared || r.Reason != rfc9111.ReasonStatus {
			t.Errorf("Read(%d) = %+v; want it neither stored nor shared", status, r)
		}
	}
	for _, status := range []int{200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 401, 403, 404, 410, 499, 500, 502, 503, 504, 599} {
		if r := read(origin, noFields, status, fields("Cache-Control", "max-age=60")); !r.Storable {
			t.Errorf("Read(%d) with max-age = %+v; want it stored", status, r)
		}
		if r := read(origin, noFields, status, noFields); r.Storable || r.Reason != rfc9111.ReasonFreshness && r.Reason != rfc9111.ReasonStatus {
			t.Errorf("Read(%d) = %+v; want it not stored", status, r)
		}
	}
}

func TestH10_MustUnderstand(t *testing.T) {
	tests := []struct {
		status       int
		cacheControl string
		want         string
	}{
		{200, "max-age=3600, no-store, must-understand", ""},
		{599, "max-age=3600, no-store, must-understand", rfc9111.ReasonStatus},
		{599, "max-age=3600, must-understand", rfc9111.ReasonStatus},
		{418, "max-age=3600, must-understand", rfc9111.ReasonStatus},
		{200, "max-age=3600, no-store, must-understand x", rfc9111.ReasonNoStore},
		{200, "max-age=3600, no-store", rfc9111.ReasonNoStore},
		{200, "no-store, must-understand", rfc9111.ReasonFreshness},
	}
	for _, tt := range tests {
		r := read(origin, noFields, tt.status, fields("Cache-Control", tt.cacheControl))
		if r.Reason != tt.want || r.Storable != (tt.want == "") {
			t.Errorf("Read(%d, %q) = %v, %q; want %q", tt.status, tt.cacheControl, r.Storable, r.Reason, tt.want)
		}
	}
}

func TestH10_WhatIsNotStored(t *testing.T) {
	const fresh = "max-age=3600"
	tests := []struct {
		name string
		req  []string
		nv   []string
		want string
	}{
		{"no-store", nil, []string{"Cache-Control", "max-age=10000, No-StOrE", "Expires", httpTime(1e13)}, rfc9111.ReasonNoStore},
		{"no-store followed by a blank", nil, []string{"Cache-Control", fresh + ", no-store =1"}, rfc9111.ReasonNoStore},
		{"no-store with an argument", nil, []string{"Cache-Control", fresh + `, no-store="x"`}, rfc9111.ReasonNoStore},
		{"no-store after a missing comma", nil, []string{"Cache-Control", fresh + " no-store"}, rfc9111.ReasonNoStore},
		{"no-store after two", nil, []string{"Cache-Control", "public\t" + fresh + "  no-store"}, rfc9111.ReasonNoStore},
		{"no-store in the middle", nil, []string{"Cache-Control", "public no-store " + fresh}, rfc9111.ReasonNoStore},
		{"private after a missing comma", nil, []string{"Cache-Control", "public private, " + fresh}, rfc9111.ReasonPrivate},
		{"private after a value", nil, []string{"Cache-Control", fresh + ", x=1 private"}, rfc9111.ReasonPrivate},
		{"quoted as a whole", nil, []string{"Cache-Control", `"private, max-age=600"`}, rfc9111.ReasonNoStore},
		{"private after a quoted value", nil, []string{"Cache-Control", fresh + `, no-cache="a" private`}, rfc9111.ReasonPrivate},
		{"private after a quoted value, no blank", nil, []string{"Cache-Control", fresh + `, x="a"private`}, rfc9111.ReasonPrivate},
		{"private after junk", nil, []string{"Cache-Control", fresh + `, x@"a,b"y private`}, rfc9111.ReasonPrivate},
		{"private after an empty value", nil, []string{"Cache-Control", fresh + `, x= private`}, rfc9111.ReasonPrivate},
		{"private in a quoted string", nil, []string{"Cache-Control", fresh + `, x="a private", y@" private "`}, ""},
		{"no-store after junk", nil, []string{"Cache-Control", fresh + `, x@"a,b"y, no-store`}, rfc9111.ReasonNoStore},
		{"an unterminated quote", nil, []string{"Cache-Control", fresh + `, x="no-cache`}, rfc9111.ReasonNoStore},
		{"no-store in quotes does not count", nil, []string{"Cache-Control", fresh + `, x="no-store"`}, ""},
		{"private", nil, []string{"Cache-Control", "private, " + fresh}, rfc9111.ReasonPrivate},
		{"private for a field", nil, []string{"Cache-Control", `private="x", ` + fresh}, rfc9111.ReasonPrivate},
		{"private after a semicolon", nil, []string{"Cache-Control", fresh + "; private"}, rfc9111.ReasonPrivate},
		{"the request's no-store", []string{"Cache-Control", "no-store"}, []string{"Cache-Control", fresh}, rfc9111.ReasonRequestNoStore},
		{"Set-Cookie", nil, []string{"Cache-Control", fresh + ", public", "Set-Cookie", "a=b"}, rfc9111.ReasonSetCookie},
		{"Set-Cookie2", nil, []string{"Cache-Control", fresh, "Set-Cookie2", "a=b"}, rfc9111.ReasonSetCookie},
		{"Vary: *", nil, []string{"Cache-Control", fresh, "Vary", "*"}, rfc9111.ReasonVary},
		{"Vary: *, *", nil, []string{"Cache-Control", fresh, "Vary", "*, *"}, rfc9111.ReasonVary},
		{"Vary: , *", nil, []string{"Cache-Control", fresh, "Vary", ", *"}, rfc9111.ReasonVary},
		{"Vary: , Vary: *", nil, []string{"Cache-Control", fresh, "Vary", "", "Vary", "*"}, rfc9111.ReasonVary},
		{"Vary: *, Foo", nil, []string{"Cache-Control", fresh, "Vary", "*, Foo"}, rfc9111.ReasonVary},
		{"Vary: Foo, *", nil, []string{"Cache-Control", fresh, "Vary", "Foo, *"}, rfc9111.ReasonVary},
		{"Vary: not a name", nil, []string{"Cache-Control", fresh, "Vary", "Foo Bar"}, rfc9111.ReasonVary},
		{"no freshness", nil, []string{"Etag", `"a"`}, rfc9111.ReasonFreshness},
		{"stale at once", nil, []string{"Cache-Control", "max-age=0"}, rfc9111.ReasonStale},
		{"stale by Age", nil, []string{"Cache-Control", "max-age=3600", "Age", "3600"}, rfc9111.ReasonStale},
		{"stale at once, to be validated", nil, []string{"Cache-Control", "max-age=0", "Etag", `"a"`}, ""},
		{"stale at once, with a window", nil, []string{"Cache-Control", "max-age=0, stale-if-error=9"}, ""},
		{"no-cache", nil, []string{"Cache-Control", "no-cache, " + fresh}, rfc9111.ReasonNoCache},
		{"pragma is for requests", nil, []string{"Cache-Control", fresh, "Pragma", "no-cache"}, ""},
		{"immutable", nil, []string{"Cache-Control", fresh + ", immutable"}, ""},
	}
	for _, tt := range tests {
		r := read(origin, fields(tt.req...), 200, fields(tt.nv...))
		if r.Reason != tt.want || r.Storable != (tt.want == "") {
			t.Errorf("%s: Read(%q) = %v, %q; want %q", tt.name, tt.nv, r.Storable, r.Reason, tt.want)
		}
	}
	post := &http.Request{Method: http.MethodPost}
	if r := origin.Read(post, plain, 200, fields("Cache-Control", fresh), t0, t0); r.Storable || r.Reason != rfc9111.ReasonMethod {
		t.Errorf("Read(POST) = %v, %q; want it not stored", r.Storable, r.Reason)
	}
}

func TestH10_NoCacheIsStoredToBeValidated(t *testing.T) {
	tests := []struct {
		status       int
		cacheControl string
		want         bool
	}{
		{200, "no-cache", true},
		{200, `no-cache="x", max-age=60`, true},
		{201, "no-cache", false},
		{201, "no-cache, max-age=60", true},
		{201, "no-cache, public", true},
	}
	for _, tt := range tests {
		r := read(origin, noFields, tt.status, fields("Cache-Control", tt.cacheControl, "Etag", `"a"`))
		if r.Storable != tt.want || !r.Validate || !r.MustRevalidate || r.Shared || r.Reason != rfc9111.ReasonNoCache {
			t.Errorf("Read(%d, %q) = %+v; want stored %v", tt.status, tt.cacheControl, r, tt.want)
		}
		if s := r.At(t0, plain); s.Fresh || s.SWR || s.IfError || s.Offline {
			t.Errorf("At(%q) = %+v; want no use without validation", tt.cacheControl, s)
		}
	}
}

func TestH3_CredentialsNeedPermission(t *testing.T) {
	const both = rfc9111.Authorization | rfc9111.Cookie
	tests := []struct {
		name         string
		p            *rfc9111.Policy
		cacheControl string
		want         rfc9111.Credentials
	}{
		{"nothing", origin, "max-age=60", 0},
		{"public", origin, "max-age=60, public", both},
		{"public that is malformed", origin, "max-age=60, public x", 0},
		{"public after a missing comma", origin, "max-age=60, x public", 0},
		{"s-maxage that is malformed", origin, "s-maxage=60 x, stale-if-error=9", 0},
		{"must-revalidate that is malformed", origin, "max-age=60, x must-revalidate", 0},
		{"s-maxage", origin, "s-maxage=60", both},
		{"must-revalidate", origin, "max-age=60, must-revalidate", rfc9111.Authorization},
		{"proxy-revalidate is not enough", origin, "max-age=60, proxy-revalidate", 0},
		{"kept apart by Authorization", &rfc9111.Policy{Vary: []string{"authorization"}}, "max-age=60", rfc9111.Authorization},
		{"kept apart by Cookie", &rfc9111.Policy{Vary: []string{"Cookie"}}, "max-age=60", rfc9111.Cookie},
		{"one cookie of many", &rfc9111.Policy{VaryCookies: []string{"lang"}}, "max-age=60", 0},
		{"the only cookie left", &rfc9111.Policy{VaryCookies: []string{"lang"}, IgnoreCookies: []string{"*"}}, "max-age=60", rfc9111.Cookie},
		{"the rest ignored by name", &rfc9111.Policy{VaryCookies: []string{"lang"}, IgnoreCookies: []string{"b"}}, "max-age=60", 0},
	}
	requests := []struct {
		has    rfc9111.Credentials
		h      http.Header
		reason string
	}{
		{rfc9111.Authorization, fields("Authorization", "Basic x"), rfc9111.ReasonAuthorization},
		{rfc9111.Cookie, fields("Cookie", "lang=de"), rfc9111.ReasonCookie},
		{both, fields("Cookie", "lang=de", "Authorization", "x"), rfc9111.ReasonAuthorization},
	}
	for _, tt := range tests {
		h := fields("Cache-Control", tt.cacheControl)
		if r := read(tt.p, noFields, 200, h); r.Admits != tt.want || !r.Storable {
			t.Errorf("%s: Read(%q) = %+v; want Admits %b", tt.name, tt.cacheControl, r, tt.want)
		}
		for _, rq := range requests {
			want := rq.has&^tt.want == 0
			r := read(tt.p, rq.h, 200, h)
			if r.Storable != want || anyone(r) != want {
				t.Errorf("%s: Read(%v, %q) = %+v; want stored and shared %v", tt.name, rq.h, tt.cacheControl, r, want)
			}
			if !want && tt.want == 0 && r.Reason != rq.reason {
				t.Errorf("%s: Read(%v).Reason = %q; want %q", tt.name, rq.h, r.Reason, rq.reason)
			}
		}
	}
}

func TestVaryNames(t *testing.T) {
	p := &rfc9111.Policy{Vary: []string{"x-tenant", "Accept"}, VaryCookies: []string{"lang"}}
	r := read(p, noFields, 200, fields("Cache-Control", "max-age=60", "Vary", "accept-encoding,, ACCEPT", "Vary", "Foo"))
	want := []string{"Accept", "Accept-Encoding", "Foo", "X-Tenant", "cookie:lang"}
	if !slices.Equal(named(r.Vary), want) {
		t.Errorf("Vary = %q; want %q", r.Vary, want)
	}
}

// An origin that receives fields as variables takes one with "_" for the one with "-". A
// response that a client selects with the other spelling is not for clients that send
// neither.
func TestH2_VarySpelledWithUnderscore(t *testing.T) {
	p := &rfc9111.Policy{Vary: []string{"X-Tenant-Id"}}
	h := fields("Cache-Control", "max-age=60", "Vary", "Accept-Language, X_Old")
	for _, tt := range []struct {
		field string
		added bool
	}{
		{"Accept_Language", true},
		{"X_Tenant-Id", true},
		{"X-Tenant_Id", true},
		{"X-Old", true},
		{"X_Other", false},
	} {
		asked := fields(tt.field, "1")
		r := read(p, asked, 200, h)
		want := []string{"Accept-Language", "X-Tenant-Id", "X_old"}
		if tt.added {
			want = append(want, http.CanonicalHeaderKey(tt.field))
			slices.Sort(want)
		}
		if !slices.Equal(named(r.Vary), want) {
			t.Errorf("%s: Vary = %q; want %q", tt.field, r.Vary, want)
		}
		if got := mayShare(p, &r, asked, noFields); got == tt.added {
			t.Errorf("%s: MayShare with a request without the field = %v; want %v", tt.field, got, !tt.added)
		}
	}
}

func TestH12_Tags(t *testing.T) {
	long := strings.Repeat("x", rfc9111.MaxTagLen)
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strconv.Itoa(i))
			b.WriteByte(' ')
		}
		return b.String()
	}
	h := fields("Cache-Control", "max-age=60", "Surrogate-Key", " a  b\ta", "Surrogate-Key", "c", "Cache-Tag", "b, d e ,,f", "Cache-Tag", long)
	r := read(origin, noFields, 200, h)
	if want := []string{"a", "b", "c", "d e", "f", long}; !slices.Equal(r.Tags, want) {
		t.Errorf("Tags = %q; want %q", r.Tags, want)
	}
	tests := []struct {
		name, key string
		want      bool
	}{
		{"as many as allowed", many(rfc9111.MaxTags) + "0 1", true},
		{"one too many", many(rfc9111.MaxTags + 1), false},
		{"one too long", "a " + long + "x", false},
	}
	for _, tt := range tests {
		r := read(origin, noFields, 200, fields("Cache-Control", "max-age=60", "Surrogate-Key", tt.key))
		if r.Storable != tt.want || (r.Reason == rfc9111.ReasonTags) == tt.want || !anyone(r) {
			t.Errorf("%s: Read = %v, %q, %v; want stored %v, and shared", tt.name, r.Storable, r.Reason, r.Shared, tt.want)
		}
	}
}
