package weirhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/weirhttp"
)

// The instances of a fleet share what their rules make equal, and a purge of one reaches
// all of it (H9, H12).
func TestH9_QueryRulesInAFleet(t *testing.T) {
	rules := weirhttp.QueryRules{Drop: []string{"utm_*"}, Sort: true}
	var caches [2]*weirhttp.Cache
	e := openEnsemble(t, 2,
		func(i int, o *weirhttp.Options) {
			caches[i], _ = weirhttp.NewCache(weirhttp.DefaultCacheBytes)
			o.Cache, o.Query = caches[i], rules
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Vary", "X-Tenant")
			fmt.Fprint(w, r.RequestURI, r.Header.Get("X-Tenant"))
		})
	ask := func(i int, target, tenant, want string) {
		t.Helper()
		s := e.sites[i]
		if got := s.do(s.request(t.Context(), http.MethodGet, target, "X-Tenant", tenant)); got.body != want {
			t.Errorf("instance %d, %s: %q; want %q", i, target, got.body, want)
		}
	}
	for _, tenant := range []string{"x", "y"} {
		ask(0, "/p?b=1&a=2&utm_x", tenant, "/p?a=2&b=1"+tenant)
		ask(1, "/p?utm_y=1&a=2&b=1", tenant, "/p?a=2&b=1"+tenant)
	}
	e.wantCalls(2)
	if _, err := caches[1].Invalidate(t.Context(), "http", "shop.example", e.sites[1].handler.Target("/p?utm_mail&b=1&a=2")); err != nil {
		t.Errorf("Invalidate = %v", err)
	}
	ask(1, "/p?b=1&a=2", "x", "/p?a=2&b=1x")
	ask(1, "/p?b=1&a=2", "y", "/p?a=2&b=1y")
	e.wantCalls(4)
}

// A Transport sends what its rules leave, and leaves the caller's request alone (H9, H15).
func TestH9_QueryRulesOfATransport(t *testing.T) {
	var calls atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, r.RequestURI)
	}))
	defer origin.Close()
	tr, err := weirhttp.NewTransport(http.DefaultTransport, weirhttp.Options{Query: weirhttp.QueryRules{Drop: []string{"utm_*"}, Sort: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/p%2Fq?b=%zz&a=1", "/p%2Fq?a=1&utm_x=1&b=%zz", "/p%2Fq?a=1&b=%zz"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", origin.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "/p%2Fq?a=1&b=%zz" {
			t.Errorf("%s reached the origin as %s", target, b)
		}
		if got := r.URL.String(); got != origin.URL+target {
			t.Errorf("the caller's request for %s is for %s now", target, got)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

// Faults of rules are all reported, by field.
func TestH9_QueryRulesAreChecked(t *testing.T) {
	o := weirhttp.Options{
		MaxVariants: 257,
		Query:       weirhttp.QueryRules{Keep: []string{"", "a*b"}, Drop: append(make([]string, 0, 101), strings.Split(strings.Repeat("a,", 100)+strings.Repeat("x", 257), ",")...)},
	}
	err := o.Validate()
	for _, want := range []string{"MaxVariants", "Query.Keep", `a name, perhaps with "*" at its end`, "at most 100 names", "at most 256 bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v; want %q in it", err, want)
		}
	}
}

// H9: a made-up signature does not take a client past the rules: they drop it, too. Nor
// does an escape that is not valid.
func TestH9_RulesThatDropASignatureHold(t *testing.T) {
	for query, want := range map[string]string{"page=1&junk=7&sig=1": "page=1", "X-Amz-Signature=c&page=1": "page=1", "page=1&%zz=1": "page=1"} {
		synctest.Test(t, func(t *testing.T) {
			var got string
			s := open(t, h1, weirhttp.Options{Query: weirhttp.QueryRules{Keep: []string{"page"}}}, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RawQuery })
			s.do(s.request(t.Context(), "GET", "/a?"+query)).want(t, 200, "")
			if got != want {
				t.Errorf("the origin got %q for %q; want %q", got, query, want)
			}
		})
	}
}

// H9: a query that a signature may cover is forwarded as it came, and is its own key.
func TestH9_SignedQueriesAreNotChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		query   string
		fields  []string
		changed bool
	}{
		"no signature":                 {"b=1&a=2&utm=x", nil, true},
		"Bearer":                       {"b=1&a=2&utm=x", []string{"Authorization", "Bearer t"}, true},
		"Signature Version 4":          {"b=1&a=2&utm=x", []string{"Authorization", "AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host, Signature=c"}, false},
		"one of it in the URL":         {"b=1&a=2&utm=x&X-Amz-Signature=c", nil, false},
		"a signed URL of a CDN":        {"b=1&a=2&utm=x&Signature=c&Key-Pair-Id=d", nil, false},
		"a shared access signature":    {"b=1&a=2&utm=x&sig=c", nil, false},
		"Digest":                       {"b=1&a=2&utm=x", []string{"Authorization", `Digest username="u", uri="/a?b=1"`}, false},
		"an unknown scheme":            {"b=1&a=2&utm=x", []string{"Authorization", "OAuth oauth_signature=c"}, false},
		"RFC 9421 with the query":      {"b=1&a=2&utm=x", []string{"Signature-Input", `s=("@method" "@query")`, "Signature", "s=:c:"}, false},
		"RFC 9421 with the target URI": {"b=1&a=2&utm=x", []string{"Signature-Input", `s=("@target-uri")`, "Signature", "s=:c:"}, false},
		"RFC 9421 without it":          {"b=1&a=2&utm=x", []string{"Signature-Input", `s=("@method" "@path")`, "Signature", "s=:c:"}, true},
		"a webhook's signature":        {"b=1&a=2&utm=x", []string{"X-Hub-Signature-256", "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got string
				s := open(t, h1, weirhttp.Options{Query: weirhttp.QueryRules{Drop: []string{"utm"}, Sort: true}}, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RawQuery })
				s.do(s.request(t.Context(), "GET", "/a?"+tt.query, tt.fields...)).want(t, 200, "")
				if changed := got != tt.query; changed != tt.changed {
					t.Errorf("the origin got %q for %q; changed: %v, want %v", got, tt.query, changed, tt.changed)
				}
			})
		})
	}
}
