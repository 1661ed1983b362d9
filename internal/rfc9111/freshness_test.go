package rfc9111_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// lifetime reads a 200 response with the fields, and renders its lifetime: "-" if
// it states none.
func lifetime(p *rfc9111.Policy, nv ...string) string {
	r := read(p, noFields, 200, fields(nv...))
	if !r.Explicit {
		return "-"
	}
	return r.Lifetime.String()
}

func TestH10_CacheControlLifetimes(t *testing.T) {
	tests := []struct{ cacheControl, want string }{
		{"max-age=3600", "1h0m0s"},
		{"foobar, MaX-aGe=3600", "1h0m0s"},
		{"max-age=003600", "1h0m0s"},
		{`max-age="3600"`, "1h0m0s"},
		{" \t, max-age=3600 ,", "1h0m0s"},
		{"max-age=2147483649", longest.String()},
		{"max-age=99999999999", longest.String()},
		{"max-age=" + strings.Repeat("9", 100), longest.String()},
		{"max-age=0", "0s"},
		{"max-age", "0s"},
		{"max-age=", "0s"},
		{"max-age=-3600", "0s"},
		{"max-age='3600'", "0s"},
		{"max-age=3600.0", "0s"},
		{"max-age=a3600", "0s"},
		{"max-age=3600a", "0s"},
		{"max-age =3600", "0s"},
		{"max-age= 3600", "0s"},
		{`max-age="3600"x`, "0s"},
		{`max-age=3600"`, "0s"},
		{"max-age=3600 x", "0s"},
		{"x max-age=3600", "0s"},
		{"public max-age=3600", "0s"},
		{"max-age=3600 , x", "1h0m0s"},
		{"max-age=3600 max-age=1", "0s"},
		{"max-age=1800, max-age=1", "1s"},
		{"max-age=1, max-age=1800", "1s"},
		{"max-age=1800, max-age=x", "0s"},
		{`extension="max-age=3600", max-age=1`, "1s"},
		{`max-age=1, extension="max-age=3600"`, "1s"},
		{`extension="a\", max-age=3600", max-age=1`, "1s"},
		{`extension="max-age=3600"`, "-"},
		{"xmax-age=3600", "-"},
		{"max-age=1, s-maxage=3600", "1h0m0s"},
		{"s-maxage=1, max-age=3600", "1s"},
		{"s-maxage=x, max-age=3600", "0s"},
		{"public; max-age=3600", "1h0m0s"},
		{"", "-"},
	}
	for _, tt := range tests {
		if got := lifetime(origin, "Cache-Control", tt.cacheControl); got != tt.want {
			t.Errorf("lifetime(%q) = %v; want %v", tt.cacheControl, got, tt.want)
		}
	}
	if got := lifetime(origin, "Cache-Control", "max-age=1800", "Cache-Control", "max-age=1"); got != "1s" {
		t.Errorf("lifetime of two lines = %v; want 1s", got)
	}
}

func TestH10_Expires(t *testing.T) {
	future := func(year string) string {
		at, err := time.Parse("2006-01-02T15:04:05", year+"-08-18T02:01:18")
		if err != nil {
			t.Fatal(err)
		}
		return at.Sub(t0).String()
	}
	tests := []struct{ expires, want string }{
		{httpTime(time.Hour), "1h0m0s"},
		{" " + httpTime(time.Hour) + "\t", "1h0m0s"},
		{httpTime(0), "0s"},
		{httpTime(-time.Hour), "0s"},
		{"0", "0s"},
		{"-1", "0s"},
		{"", "0s"},
		{"Thu, 18 Aug 2050 02:01:18 GMT", future("2050")},
		{"Thursday, 18-Aug-50 02:01:18 GMT", future("2050")},
		{"THURSDAY, 18-AUG-50 02:01:18 gmt", future("2050")},
		{"Thursday, 18-Aug-94 02:01:18 GMT", "0s"}, // in the past century
		{"Thu Aug 18 02:01:18 2050", future("2050")},
		{"THU, 18 Aug 2050 02:01:18 GMT", future("2050")},
		{"Thu, 18 AUG 2050 02:01:18 GMT", future("2050")},
		{"Thu, 18 Aug 2050 02:01:18 gMT", future("2050")},
		{"Sun, 21 Nov 2286 04:46:39 GMT", longest.String()},
		{"Thu, 18 Aug 2050 02:01:18 UTC", "0s"},
		{"Thu, 18 Aug 2050 02:01:18 AEST", "0s"},
		{"Thursday, 18-Aug-50 02:01:18 UTC", "0s"},
		{"Thu, 18 Aug 50 02:01:18 GMT", "0s"},
		{"Thu 18 Aug 2050 02:01:18 GMT", "0s"},
		{"Thu, 18  Aug  2050 02:01:18 GMT", "0s"},
		{"Thu, 18-Aug-2050 02:01:18 GMT", "0s"},
		{"Thu, 18 Aug 2050 02.01.18 GMT", "0s"},
		{"Thu, 18 Aug 2050 2:01:18 GMT", "0s"},
		{"Thu, 18 Aug 2050 24:01:18 GMT", "0s"},
		{"Thu, 31 Feb 2050 02:01:18 GMT", "0s"},
		{"Abc, 18 Aug 2050 02:01:18 GMT", "0s"},
		{"Thu, 18 Abc 2050 02:01:18 GMT", "0s"},
		{"Thu, 1x Aug 2050 02:01:18 GMT", "0s"},
	}
	for _, tt := range tests {
		if got := lifetime(origin, "Expires", tt.expires, "Date", httpTime(0)); got != tt.want {
			t.Errorf("lifetime(Expires: %q) = %v; want %v", tt.expires, got, tt.want)
		}
	}
}

func TestH10_ExpiresBesideOthers(t *testing.T) {
	hour := httpTime(time.Hour)
	tests := []struct {
		name string
		nv   []string
		want string
	}{
		{"max-age wins", []string{"Cache-Control", "max-age=5", "Expires", hour}, "5s"},
		{"max-age=0 wins", []string{"Cache-Control", "max-age=0", "Expires", hour}, "0s"},
		{"an invalid one does not hurt max-age", []string{"Cache-Control", "max-age=5", "Expires", "0"}, "5s"},
		{"counts from Date", []string{"Expires", hour, "Date", httpTime(-time.Hour)}, "2h0m0s"},
		{"older than Date", []string{"Expires", httpTime(300 * sec), "Date", httpTime(400 * sec)}, "0s"},
		{"an invalid Date counts as received", []string{"Expires", hour, "Date", "foo"}, "1h0m0s"},
		{"the earliest of two", []string{"Expires", hour, "Expires", httpTime(2 * sec)}, "2s"},
		{"an invalid one of two", []string{"Expires", hour, "Expires", "x"}, "0s"},
	}
	for _, tt := range tests {
		if got := lifetime(origin, tt.nv...); got != tt.want {
			t.Errorf("%s: lifetime(%q) = %v; want %v", tt.name, tt.nv, got, tt.want)
		}
	}
}

func TestH10_Age(t *testing.T) {
	tests := []struct {
		name  string
		nv    []string
		delay time.Duration
		want  time.Duration
	}{
		{"none", nil, 0, 0},
		{"plain", []string{"Age", "7200"}, 0, 7200 * sec},
		{"not a number", []string{"Age", "abc"}, 0, 0},
		{"negative", []string{"Age", "-7200"}, 0, 0},
		{"with a point", []string{"Age", "7200.0"}, 0, 0},
		{"large", []string{"Age", "2147483648"}, 0, longest},
		{"larger", []string{"Age", "99999999999999999999"}, 0, longest},
		{"the first of a line", []string{"Age", "7200, 0"}, 0, 7200 * sec},
		{"the first of a line is 0", []string{"Age", "0, 7200"}, 0, 0},
		{"the first line", []string{"Age", "7200", "Age", "0"}, 0, 7200 * sec},
		{"the first line is 0", []string{"Age", "0", "Age", "7200"}, 0, 0},
		{"by Date", []string{"Date", httpTime(-90 * sec)}, 0, 90 * sec},
		{"a Date in the future", []string{"Date", httpTime(90 * sec)}, 0, 0},
		{"a Date of long ago", []string{"Date", "Thu, 01 Jan 1700 00:00:00 GMT"}, 0, longest},
		{"an invalid Date", []string{"Date", "yesterday"}, 0, 0},
		{"Date and Age, the greater", []string{"Date", httpTime(-10 * sec), "Age", "25"}, 0, 25 * sec},
		{"the delay counts", []string{"Age", "25"}, 3 * sec, 28 * sec},
		{"the delay alone", nil, 3 * sec, 3 * sec},
		{"a clock that went back", []string{"Age", "25"}, -3 * sec, 25 * sec},
	}
	for _, tt := range tests {
		r := origin.Read(get(nil), plain, 200, fields(tt.nv...), t0.Add(-tt.delay), t0)
		if r.Age != tt.want {
			t.Errorf("%s: Age(%q) = %v; want %v", tt.name, tt.nv, r.Age, tt.want)
		}
	}
}

func TestH10_TargetedField(t *testing.T) {
	hour := httpTime(time.Hour)
	tests := []struct {
		name     string
		nv       []string
		lifetime string
		reason   string
	}{
		{"alone", []string{"CDN-Cache-Control", "max-age=5"}, "5s", ""},
		{"saturates", []string{"CDN-Cache-Control", "max-age=99999999999"}, longest.String(), ""},
		{"an extension", []string{"CDN-Cache-Control", "foobar, max-age=5"}, "5s", ""},
		{"parameters are ignored", []string{"CDN-Cache-Control", `max-age=5;a=1;b="x"`}, "5s", ""},
		{"the last of two counts", []string{"CDN-Cache-Control", "max-age=1, max-age=5"}, "5s", ""},
		{"two lines", []string{"CDN-Cache-Control", "foo", "CDN-Cache-Control", "max-age=5"}, "5s", ""},
		{"negative", []string{"CDN-Cache-Control", "max-age=-5"}, "0s", rfc9111.ReasonStale},
		{"over Cache-Control", []string{"CDN-Cache-Control", "max-age=5", "Cache-Control", "no-store"}, "5s", ""},
		{"over Expires", []string{"CDN-Cache-Control", "foo", "Expires", hour}, "-", rfc9111.ReasonFreshness},
		{"its private", []string{"CDN-Cache-Control", "private", "Cache-Control", "max-age=5"}, "-", rfc9111.ReasonPrivate},
		{"its qualified private", []string{"CDN-Cache-Control", `private="a", max-age=5`}, "5s", rfc9111.ReasonPrivate},
		{"its no-store", []string{"CDN-Cache-Control", "no-store", "Cache-Control", "max-age=5"}, "-", rfc9111.ReasonNoStore},
		{"a false no-store", []string{"CDN-Cache-Control", "no-store=?0, max-age=5"}, "5s", ""},
		{"its no-cache", []string{"CDN-Cache-Control", "no-cache", "Cache-Control", "max-age=5"}, "-", rfc9111.ReasonNoCache},
		{"the wrong type", []string{"CDN-Cache-Control", `max-age="5"`, "Cache-Control", "max-age=7"}, "-", rfc9111.ReasonFreshness},
		{"empty", []string{"CDN-Cache-Control", " ", "Cache-Control", "max-age=7"}, "7s", ""},
		{"no dictionary", []string{"CDN-Cache-Control", "max-age=5, &&&", "Cache-Control", "no-store"}, "-", rfc9111.ReasonNoStore},
		{"capitals", []string{"CDN-Cache-Control", "MaX-aGe=5", "Cache-Control", "max-age=7"}, "7s", ""},
		{"a blank before =", []string{"CDN-Cache-Control", "max-age =5", "Cache-Control", "max-age=7"}, "7s", ""},
		{"a blank after =", []string{"CDN-Cache-Control", "max-age= 5", "Cache-Control", "max-age=7"}, "7s", ""},
		{"a trailing comma", []string{"CDN-Cache-Control", "max-age=5,", "Cache-Control", "max-age=7"}, "7s", ""},
	}
	for _, tt := range tests {
		if got := lifetime(origin, tt.nv...); got != tt.lifetime {
			t.Errorf("%s: lifetime(%q) = %v; want %v", tt.name, tt.nv, got, tt.lifetime)
		}
		if r := read(origin, noFields, 200, fields(tt.nv...)); r.Reason != tt.reason {
			t.Errorf("%s: Read(%q).Reason = %q; want %q", tt.name, tt.nv, r.Reason, tt.reason)
		}
	}
}

func TestH10_TargetedFieldsInOrder(t *testing.T) {
	p := &rfc9111.Policy{Targeted: []string{"weir-cache-control", "CDN-Cache-Control"}}
	cdn := []string{"CDN-Cache-Control", "max-age=5", "Cache-Control", "max-age=7"}
	if got := lifetime(p, append(cdn, "Weir-Cache-Control", "max-age=3")...); got != "3s" {
		t.Errorf("lifetime with both = %v; want 3s", got)
	}
	if got := lifetime(p, append(cdn, "Weir-Cache-Control", "(")...); got != "5s" {
		t.Errorf("lifetime with an invalid first = %v; want 5s", got)
	}
	if got := lifetime(&rfc9111.Policy{Targeted: []string{}}, cdn...); got != "7s" {
		t.Errorf("lifetime without targeted fields = %v; want 7s", got)
	}
}

func TestStructuredDictionary(t *testing.T) {
	valid := []string{
		"a", "a=1", "a=-1", "a=1.5", "a=?1", "a=?0", `a="x\"\\y"`, "a=tok/en:*", "a=*t", "a=:aGk=:", "a=@1659578233",
		`a=%"f%c3%bc"`, "a=()", "a=(1 2)", `a=( "x";p  y );q=1`, "a;b;c=1", "a; b", "*a_-.1=1", "a=1,b=2 ,\t c", " a ",
		"a=999999999999999", "a=123456789012.123",
	}
	invalid := []string{
		"A", "1", "a=", "a,", ",a", "a,,b", "a b", "a=1 2", "a=?2", "a=?", `a="x`, `a="\x"`, "a=\"\x01\"", "a=(1", "a=(1,2)",
		"a=(1\"x\")", "a=:a", "a=@x", "a=@1.5", `a=%"%C3"`, `a=%"%c`, "a=%x", "a=1.", "a=1.1234", "a=1234567890123456",
		"a=1234567890123.1", "a=-", "a;B", "a;", "a=1;b=", "a=\x80", "a\t=1",
	}
	// A member of a kind that weir does not use is ignored, but the field still
	// counts if it is valid, and hides Cache-Control.
	counts := func(field string) bool {
		return lifetime(origin, "CDN-Cache-Control", field, "Cache-Control", "max-age=7") == "-"
	}
	for _, field := range valid {
		if !counts(field) {
			t.Errorf("dictionary %q is ignored; want it to count", field)
		}
	}
	for _, field := range invalid {
		if counts(field) {
			t.Errorf("dictionary %q counts; want it ignored", field)
		}
	}
}

func TestPolicyTTL(t *testing.T) {
	ttl := &rfc9111.Policy{TTL: 9 * sec}
	force := &rfc9111.Policy{TTL: 9 * sec, Force: true}
	tests := []struct {
		name   string
		p      *rfc9111.Policy
		status int
		nv     []string
		want   string // lifetime, or the reason
	}{
		{"nothing said", ttl, 200, nil, "9s"},
		{"replaces a stated lifetime", ttl, 200, []string{"Cache-Control", "max-age=5"}, "9s"},
		{"not the stated lifetime of an error", ttl, 404, []string{"Cache-Control", "max-age=5"}, "5s"},
		{"not for 500", ttl, 500, nil, rfc9111.ReasonFreshness},
		{"not for 500 with its own", ttl, 500, []string{"Cache-Control", "max-age=5"}, "5s"},
		{"not over no-store", ttl, 200, []string{"Cache-Control", "no-store"}, rfc9111.ReasonNoStore},
		{"not over private", ttl, 200, []string{"Cache-Control", "private"}, rfc9111.ReasonPrivate},
		{"not over no-cache", ttl, 200, []string{"Cache-Control", "no-cache"}, rfc9111.ReasonNoCache},
		{"force, no-store", force, 200, []string{"Cache-Control", "no-store"}, "9s"},
		{"force, private", force, 200, []string{"Cache-Control", "private, max-age=0"}, "9s"},
		{"force, no-cache", force, 200, []string{"Cache-Control", "no-cache"}, "9s"},
		{"force, Set-Cookie", force, 200, []string{"Set-Cookie", "a=b"}, rfc9111.ReasonSetCookie},
		{"force, Vary", force, 200, []string{"Vary", "*"}, rfc9111.ReasonVary},
		{"force, not for 500", force, 500, []string{"Cache-Control", "no-store"}, rfc9111.ReasonNoStore},
	}
	for _, tt := range tests {
		r := read(tt.p, noFields, tt.status, fields(tt.nv...))
		got := r.Reason
		if r.Storable {
			got = r.Lifetime.String()
		}
		if got != tt.want || r.Storable && !r.Shared || r.Storable && r.Validate {
			t.Errorf("%s: Read(%d, %q) = %q, %+v; want %q", tt.name, tt.status, tt.nv, got, r, tt.want)
		}
	}
	for _, nv := range [][]string{{"Authorization", "x"}, {"Cookie", "x"}} {
		if r := read(force, fields(nv...), 200, fields("Cache-Control", "no-store, public, s-maxage=5")); r.Storable || r.Shared {
			t.Errorf("forced response to %q: %+v; want it neither stored nor shared", nv, r)
		}
	}
}

func TestPolicyHeuristic(t *testing.T) {
	p := &rfc9111.Policy{Heuristic: 0.1}
	day := 24 * time.Hour
	tests := []struct {
		status int
		nv     []string
		want   time.Duration
	}{
		{200, []string{"Last-Modified", httpTime(-100 * sec)}, 10 * sec},
		{200, []string{"Last-Modified", httpTime(-100 * sec), "Date", httpTime(-50 * sec)}, 5 * sec},
		{200, []string{"Last-Modified", httpTime(-100 * day)}, day},
		{200, []string{"Last-Modified", httpTime(100 * sec)}, 0},
		{200, []string{"Last-Modified", "x"}, 0},
		{200, nil, 0},
		{404, []string{"Last-Modified", httpTime(-100 * sec)}, 10 * sec},
		{201, []string{"Last-Modified", httpTime(-100 * sec)}, 0},
		{502, []string{"Last-Modified", httpTime(-100 * sec)}, 0},
		{599, []string{"Last-Modified", httpTime(-100 * sec)}, 0},
		{599, []string{"Last-Modified", httpTime(-100 * sec), "Cache-Control", "public"}, 10 * sec},
	}
	for _, tt := range tests {
		r := read(p, noFields, tt.status, fields(tt.nv...))
		if r.Lifetime != tt.want || r.Storable != (tt.want > 0) || r.Explicit || !r.Shared || !rfc9111.Strict(r.Vary) {
			t.Errorf("Read(%d, %q) = %+v; want lifetime %v", tt.status, tt.nv, r, tt.want)
		}
	}
	h := fields("Last-Modified", httpTime(-100*day))
	if r := read(&rfc9111.Policy{Heuristic: 0.5, MaxHeuristic: time.Hour}, noFields, 200, h); r.Lifetime != time.Hour {
		t.Errorf("lifetime = %v; want MaxHeuristic", r.Lifetime)
	}
	if r := read(origin, noFields, 200, h); r.Storable {
		t.Errorf("without Heuristic: %+v; want it not stored", r)
	}
	if got := read(p, noFields, 200, http.Header{"Expires": {"0"}, "Last-Modified": {httpTime(-time.Hour)}}); got.Lifetime != 0 {
		t.Errorf("lifetime with an invalid Expires = %v; want 0", got.Lifetime)
	}
}
