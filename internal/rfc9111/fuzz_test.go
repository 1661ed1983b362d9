package rfc9111_test

import (
	"encoding/json"
	"math/big"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// sound checks invariants that hold for every decision.
func sound(t *testing.T, r rfc9111.Response) {
	t.Helper()
	for _, d := range []time.Duration{r.Lifetime, r.Age, r.StaleWhileRevalidate, r.StaleIfError, r.StaleOffline} {
		if d < 0 || d > longest {
			t.Fatalf("%+v: %v is out of bounds", r, d)
		}
	}
	if r.MustRevalidate && (r.StaleWhileRevalidate != 0 || r.StaleIfError != 0 || r.StaleOffline != 0) {
		t.Fatalf("%+v: must be revalidated, and has a window", r)
	}
	if !r.Storable && r.Reason == "" {
		t.Fatalf("%+v: not stored, but without a reason", r)
	}
	if r.Storable && !r.Explicit && r.Lifetime == 0 && !r.Validate {
		t.Fatalf("%+v: stored without freshness", r)
	}
	var last rfc9111.Standing
	for i, after := range []time.Duration{0, 1, sec, 59 * sec, 60 * sec, 61 * sec, time.Hour, 1e5 * sec, longest, 2 * longest} {
		s := r.At(t0.Add(after), plain)
		if s.Age+s.TTL != r.Lifetime || s.Age < 0 {
			t.Fatalf("%+v: At(+%v) = %+v", r, after, s)
		}
		if i > 0 && (s.Age < last.Age || s.Fresh && !last.Fresh || s.IfError && !last.IfError || s.Offline && !last.Offline) {
			t.Fatalf("%+v: At goes from %+v to %+v", r, last, s)
		}
		if s.Fresh && (s.SWR || s.TTL <= 0 || r.Validate) || s.SWR && (s.TTL > 0 || r.MustRevalidate) {
			t.Fatalf("%+v: At(+%v) = %+v", r, after, s)
		}
		last = s
	}
}

func FuzzCacheControl(f *testing.F) {
	for _, s := range []string{"max-age=60", `a="b\"c", s-maxage=1`, "private;x", "max-age =5", `x="`, `=,"a"b,;`, "must-understand", "stale-if-error=9\nmax-age=1", `no-cache="a" private`, "public max-age=60"} {
		f.Add(s)
	}
	p := &rfc9111.Policy{StaleIfError: sec, StaleOffline: sec}
	f.Fuzz(func(t *testing.T, s string) {
		lines := strings.Split(s, "\n")
		decide := func(lines ...string) rfc9111.Response {
			r := read(p, noFields, 200, http.Header{"Cache-Control": lines, "Etag": {`"a"`}})
			sound(t, r)
			return r
		}
		r := decide(lines...)
		understands := strings.Contains(strings.ToLower(s), "must-understand")
		for _, forbids := range []string{"no-store", "Private", `private="a"`, "no-store x", "private;", "x no-store", `x="a" private`, "public private"} {
			if understands && strings.Contains(forbids, "no-store") {
				continue
			}
			for _, l := range [][]string{{s + ", " + forbids}, {s + " " + forbids}, {forbids + " " + s}, {forbids + "," + s}, append([]string{forbids}, lines...), append(lines[:len(lines):len(lines)], forbids)} {
				if got := decide(l...); got.Storable || got.Shared {
					t.Fatalf("Read(%q) = %+v; want it neither stored nor shared", l, got)
				}
			}
		}
		for _, must := range []string{"must-revalidate", "proxy-revalidate", "no-cache"} {
			if got := decide(append(lines[:len(lines):len(lines)], must)...); !got.MustRevalidate {
				t.Fatalf("Read(%q, %s) = %+v; want MustRevalidate", s, must, got)
			}
		}
		if got := decide(append(lines[:len(lines):len(lines)], "max-age=5, s-maxage=5")...); got.Lifetime > 5*sec || r.Explicit && got.Lifetime > max(r.Lifetime, 5*sec) {
			t.Fatalf("Read(%q, max-age=5) = %+v; want at most 5 s", s, got)
		}
	})
}

func FuzzTargeted(f *testing.F) {
	for _, s := range []string{"max-age=60", "no-store=?0", `private=("a" b);c`, "a=:aGk=:, b=@1, c=1.5", `x=%"%c3"`, "a,", "max-age=-1", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		behind := fields("Cache-Control", "max-age=77")
		with := func(s string) rfc9111.Response {
			h := behind.Clone()
			h["Cdn-Cache-Control"] = []string{s}
			r := read(origin, noFields, 200, h)
			sound(t, r)
			return r
		}
		// An unknown member does not change what a field means, and the last
		// member with a name counts. A field that is not a dictionary stays
		// invalid.
		r := with(s)
		ignored := with(s+",max-age=78").Lifetime == 77*sec
		if ignored && strings.Trim(s, " ") != "" && !reflect.DeepEqual(r, read(origin, noFields, 200, behind)) {
			t.Fatalf("Read(%q) = %+v; want it ignored", s, r)
		}
		if ignored {
			return
		}
		if got := with(s + ", xyz"); !reflect.DeepEqual(r, got) {
			t.Fatalf("Read(%q) = %+v, with another member %+v", s, r, got)
		}
		if got := with(s + ",no-store,must-understand=?0"); got.Storable || got.Shared {
			t.Fatalf("Read(%q, no-store) = %+v; want it neither stored nor shared", s, got)
		}
	})
}

// selection is an independent implementation of Selecting, for comparison.
func selection(vary []string, h http.Header) string {
	var all []any
	for _, name := range vary {
		if cookie, ok := strings.CutPrefix(name, "cookie:"); ok {
			values := []string{}
			for _, pair := range strings.Split(strings.Join(h["Cookie"], ";"), ";") {
				pair = strings.Trim(pair, " \t")
				n, v, has := strings.Cut(pair, "=")
				if strings.TrimRight(n, " \t") == cookie && pair != "" {
					values = append(values, hex(v), map[bool]string{true: "="}[has])
				}
			}
			all = append(all, values)
			continue
		}
		if len(h[name]) == 0 {
			all = append(all, nil)
			continue
		}
		values := []string{}
		for _, line := range h[name] {
			switch {
			case name == "Cookie":
				values = append(values, hex(line))
			case strings.Contains(line, `"`):
				values = append(values, strings.Trim(line, " \t"))
			default:
				for _, v := range strings.Split(line, ",") {
					values = append(values, strings.Trim(v, " \t"))
				}
			}
		}
		if name != "Cookie" {
			values = []string{hex(strings.Join(values, ", "))}
		}
		all = append(all, values)
	}
	b, _ := json.Marshal(all)
	return string(b)
}

// hex makes bytes that are not UTF-8 distinct in JSON.
func hex(s string) string { return new(big.Int).SetBytes([]byte("x" + s)).Text(16) }

func FuzzSelecting(f *testing.F) {
	f.Add("a, b", "c", "a", "b\nc", "4:a, b")
	f.Add("", "l=1; k", `"a,b"`, " a ,\tb", "-")
	f.Add("l=1\nl=2", "l=1;l=2", "l", "l=", "0:0:1:l")
	vary := []string{"Bar", "Cookie", "Foo", "cookie:l"}
	header := func(a, b string) http.Header {
		h := http.Header{}
		if a != "" {
			h["Foo"] = strings.Split(a[1:], "\n")
		}
		if b != "" {
			h["Cookie"] = strings.Split(b, "\n")
			h["Bar"] = strings.Split(b, "=")
		}
		return h
	}
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2, any string) {
		a, b := header(a1, a2), header(b1, b2)
		for n := range vary {
			names := vary[n:]
			sa, sb := selecting(names, a), selecting(names, b)
			equal := selection(names, a) == selection(names, b)
			if (sa == sb) != equal {
				t.Fatalf("Selecting(%q) of %q and %q = %q and %q; want equal %v", names, a, b, sa, sb, equal)
			}
			for _, s := range []string{sa, sb, any, "0" + sa, sa + "-"} {
				if got := matches(names, s, b); got != (s == sb) {
					t.Fatalf("Matches(%q, %q, %q) = %v; Selecting = %q", names, s, b, got, sb)
				}
			}
		}
	})
}

func FuzzForward(f *testing.F) {
	f.Add("a=1; lang=de;b", "lang", "b", true)
	f.Add(";;=1;\n lang = x ; a", "", "a", false)
	f.Fuzz(func(t *testing.T, cookie, vary, ignore string, star bool) {
		if vary == ignore || ignore == "*" {
			return
		}
		p := &rfc9111.Policy{VaryCookies: []string{vary}, IgnoreCookies: []string{ignore}}
		if star {
			p.IgnoreCookies = append(p.IgnoreCookies, "*")
		}
		h := http.Header{"Cookie": strings.Split(cookie, "\n")}
		before := h.Clone()
		dry := p.Forward(h, true)
		if got := p.Forward(h, false); got != dry || dry == reflect.DeepEqual(h, before) {
			t.Fatalf("Forward(%q) = %v, dry %v, left %q", before, got, dry, h)
		}
		if p.Forward(h, true) {
			t.Fatalf("Forward(%q) left something: %q", before, h)
		}
		if vary != "" && strings.Trim(vary, " \t") == vary {
			names := []string{"cookie:" + vary}
			if !matches(names, selecting(names, before), h) {
				t.Fatalf("Forward(%q) changed cookie %q: %q", before, vary, h)
			}
		}
		if ignore != "" && selecting([]string{"cookie:" + ignore}, h) != "-" {
			t.Fatalf("Forward(%q) left cookie %q: %q", before, ignore, h)
		}
	})
}

func FuzzAge(f *testing.F) {
	for _, s := range []string{"0", "7200, 0", " 5\t", "-1", "1.0", "99999999999999999999", "2147483648"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, _, _ := strings.Cut(s, ",")
		first = strings.Trim(first, " \t")
		want := time.Duration(0)
		if strings.Trim(first, "0123456789") == "" && first != "" {
			n, _ := new(big.Int).SetString(first, 10)
			want = longest
			if n.Cmp(big.NewInt(int64(longest/sec))) < 0 {
				want = time.Duration(n.Int64()) * sec
			}
		}
		r := read(origin, noFields, 200, http.Header{"Age": {s}})
		if sound(t, r); r.Age != want {
			t.Fatalf("Age(%q) = %v; want %v", s, r.Age, want)
		}
	})
}

func FuzzExpires(f *testing.F) {
	for _, s := range []string{httpTime(time.Hour), "Thursday, 18-Aug-50 02:01:18 GMT", "Thu Aug  8 02:01:18 2050", "0", "Thu, 31 Feb 2050 02:01:18 GMT", "Tue, 29 Feb 2028 23:59:60 gmt"} {
		f.Add(s, int64(0))
	}
	f.Fuzz(func(t *testing.T, s string, at int64) {
		r := read(origin, noFields, 200, http.Header{"Expires": {s}})
		if sound(t, r); !r.Explicit {
			t.Fatalf("Read(Expires: %q) = %+v; want explicit freshness", s, r)
		}
		if r.Lifetime > 0 && r.Lifetime < longest {
			again := read(origin, noFields, 200, http.Header{"Expires": {httpTime(r.Lifetime)}})
			if again.Lifetime != r.Lifetime {
				t.Fatalf("Expires %q has lifetime %v, but as %q it has %v", s, r.Lifetime, httpTime(r.Lifetime), again.Lifetime)
			}
		}
		when := time.Unix(at%253402300800, 0).UTC() // up to the year 9999
		if when.Year() < 0 {
			return
		}
		want := min(max(when.Sub(t0), 0), longest)
		for _, form := range []string{http.TimeFormat, time.ANSIC} {
			if r := read(origin, noFields, 200, fields("Expires", when.Format(form))); r.Lifetime != want {
				t.Fatalf("Expires %q has lifetime %v; want %v", when.Format(form), r.Lifetime, want)
			}
		}
		// The first form accepts at least what time.Parse accepts in canonical
		// form.
		if canonical, err := time.Parse(http.TimeFormat, s); err == nil && len(s) == 29 && canonical.Format(http.TimeFormat) == s {
			if want := min(max(canonical.Sub(t0), 0), longest); r.Lifetime != want {
				t.Fatalf("Expires %q has lifetime %v; want %v", s, r.Lifetime, want)
			}
		}
	})
}

func FuzzDate(f *testing.F) {
	for _, s := range []string{httpTime(-time.Hour), "x", "Sunday, 06-Nov-94 08:49:37 GMT", "Mon Feb  1 00:00:00 0000"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, date, modified string) {
		p := &rfc9111.Policy{Heuristic: 0.5}
		h := http.Header{"Date": {date}, "Last-Modified": {modified}}
		r := read(p, noFields, 200, h)
		if sound(t, r); r.Lifetime > 24*time.Hour || r.Explicit {
			t.Fatalf("Read(%q) = %+v; want a heuristic lifetime of at most a day", h, r)
		}
		r = read(origin, noFields, 200, http.Header{"Date": {date}, "Expires": {date}})
		if sound(t, r); r.Lifetime != 0 {
			t.Fatalf("Expires and Date %q: lifetime %v; want 0", date, r.Lifetime)
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{"max-age=0", "min-fresh=5, max-stale", `x="`, "only-if-cached;no-cache"} {
		f.Add(s, "text/html, text/event-stream")
	}
	f.Fuzz(func(t *testing.T, s, accept string) {
		q := rfc9111.ReadRequest(http.Header{"Cache-Control": {s}, "Accept": {accept}})
		if q.MaxAge < rfc9111.None || q.MaxStale < rfc9111.None || q.MinFresh < 0 || q.MaxAge == 0 && !q.NoCache {
			t.Fatalf("ReadRequest(%q) = %+v", s, q)
		}
		strict := rfc9111.ReadRequest(http.Header{"Cache-Control": {s, "no-store, no-cache, only-if-cached, max-age=3, min-fresh=4, max-stale=5"}})
		if !strict.NoStore || !strict.NoCache || !strict.OnlyIfCached || strict.MaxAge > 3*sec || strict.MinFresh < 4*sec || strict.MaxStale > 5*sec {
			t.Fatalf("ReadRequest(%q and stricter) = %+v", s, strict)
		}
		r := read(origin, noFields, 200, fields("Cache-Control", "max-age=60, stale-while-revalidate=60"))
		for _, after := range []time.Duration{0, 30 * sec, 61 * sec} {
			tighter := rfc9111.ReadRequest(http.Header{"Cache-Control": {s, "max-age=31, min-fresh=4"}})
			if a, b := r.At(t0.Add(after), q), r.At(t0.Add(after), tighter); b.Fresh && !a.Fresh || b.SWR && !a.SWR {
				t.Fatalf("At(+%v) = %+v, but for the stricter %+v", after, a, b)
			}
		}
		if types := strings.Split(strings.ToLower(accept), ","); !q.Streams {
			for _, typ := range types {
				if strings.Trim(typ, " \t") == "text/event-stream" {
					t.Fatalf("ReadRequest(Accept: %q): no stream", accept)
				}
			}
		}
	})
}

func FuzzInvalidates(f *testing.F) {
	for _, s := range []string{"/b", "?x", "//evil/b", "http:b", "http://example.com:80", "../..//x", "http://example.com\\@evil/", "%zz", "#f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, location string) {
		r := &http.Request{Method: "POST", Host: "example.com", RequestURI: "/a", URL: &url.URL{Path: "/a"}}
		got := rfc9111.Invalidates(r, "http", 200, http.Header{"Location": {location}})
		if len(got) == 0 || got[0] != "/a" {
			t.Fatalf("Invalidates(%q) = %q; want its own target first", location, got)
		}
		for _, target := range got {
			if !strings.HasPrefix(target, "/") || strings.Contains(target, "#") {
				t.Fatalf("Invalidates(%q) = %q; want paths and queries", location, got)
			}
		}
	})
}
