package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// The key and the forwarded request have the same query, whatever the client wrote, and
// a purge by what it wrote finds the entry (H9, H12).
func TestH9_QueryRulesOfARoute(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			io.WriteString(w, r.RequestURI)
		})
		c := config(upstreamOf(o))
		c.Routes[0].Query = weirhttp.QueryRules{Drop: []string{"utm_*", "fbclid"}, Sort: true}
		c.Routes = append(c.Routes, gateway.Route{Name: "raw", Path: "/raw"})
		s := open(c)
		calls := o.calls.Load() // over HTTP/2, open makes one
		for _, e := range []struct{ path, want string }{
			{"/p%2Fq?b=1&a=%zz&utm_source=x", "/p%2Fq?a=%zz&b=1"},
			{"/p%2Fq?a=%zz&%75tm_x=<evil>&b=1", "/p%2Fq?a=%zz&b=1"},
			{"/p%2Fq?utm_a=1;b=evil&a=%zz&b=1", "/p%2Fq?a=%zz&b=1"},
			{"/p%2Fq?b=1&a=%zz&fbclid", "/p%2Fq?a=%zz&b=1"},
		} {
			if got := s.raw(e.path); got.status != 200 || got.body != e.want {
				t.Errorf("GET %s = %d %q; want %q", e.path, got.status, got.body, e.want)
			}
		}
		if n := o.calls.Load() - calls; n != 1 {
			t.Errorf("%d calls; want 1 for all spellings", n)
		}
		for path, want := range map[string]string{
			"/x?utm_a":              "/x",
			"/x?b&a=2&A=0&a=1":      "/x?a=2&A=0&a=1&b",
			"/x?b=1;a=2&a=3":        "/x?b=1;a=2&a=3",
			"/x?a;utm_b=1":          "/x?a;utm_b=1",
			"/x?=&&a=1":             "/x?=&&a=1",
			"/x?":                   "/x?",
			"/raw?utm_a=1&b=1&a=%z": "/raw?utm_a=1&b=1&a=%z",
		} {
			if got := s.raw(path); got.body != want {
				t.Errorf("GET %s reached the origin as %q; want %q", path, got.body, want)
			}
		}
		r := httptest.NewRequest("GET", "http://h.test/p%2Fq?utm_z=9&b=1&a=%zz", nil)
		if strings.HasPrefix(s.url, "http://") {
			if _, e := s.g.Explain(r); e.Answer != "hit" || strings.Contains(e.Key, "utm") || !strings.Contains(strings.Join(e.Steps, " "), "query rules") {
				t.Errorf("Explain = %+v; want a hit, and the rules", e)
			}
			if got := s.get("/p%2Fq?utm_z=9", "Host", "h.test"); got.header.Get("Cache-Status") == "" {
				t.Error("no Cache-Status")
			}
			n, err := s.g.Expire(t.Context(), "http", "h.test", "/p%2Fq?b=1&utm_other=1&a=%zz")
			if n != 1 || err != nil {
				t.Errorf("Expire = %d, %v; want 1, by a URL that a client wrote", n, err)
			}
			if n, err = s.g.Invalidate(t.Context(), "http", "h.test", "/p%2Fq?b=1&utm_other=1&a=%zz"); n != 1 || err != nil {
				t.Errorf("Invalidate = %d, %v; want 1", n, err)
			}
			if n, err = s.g.Invalidate(t.Context(), "http", "h.test", "/raw?utm_a=1&b=1&a=%z"); n != 1 || err != nil {
				t.Errorf("Invalidate of a route without rules = %d, %v; want 1", n, err)
			}
		}
	})
}

// No client reaches another with a parameter that the key leaves out.
func TestH9_DroppedParametersReachNobody(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprintf(w, "%q %q", r.URL.RawQuery, r.URL.Query().Get("cb"))
	})
	c := config(upstreamOf(o))
	c.Routes[0].Query = weirhttp.QueryRules{Keep: []string{"q"}}
	s := open(t, c)
	s.want("/?q=1&cb=<script>", 200, `"q=1" ""`)
	s.want("/?q=1", 200, `"q=1" ""`)
	// Also for other methods, whose requests are not stored.
	r := s.request("POST", "/?cb=<script>&q=2", strings.NewReader("x"))
	if got := s.do(r); got.body != `"q=2" ""` {
		t.Errorf("POST reached the origin with %s", got.body)
	}
	// An unsafe method removes what is stored under the rules.
	s.want("/?q=2", 200, `"q=2" ""`)
	calls := o.calls.Load()
	s.do(s.request("POST", "/?q=1&x=2", nil))
	s.want("/?q=1&y=3", 200, `"q=1" ""`)
	if n := o.calls.Load() - calls; n != 2 {
		t.Errorf("%d calls for a POST and a GET after it; want 2", n)
	}
}

// In observe mode the origin gets the query as it came, and the counts are those of the
// rules (H22).
func TestH22_ObserveForwardsTheQueryAsItCame(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "same")
		if r.URL.Query().Get("utm_a") == "" {
			t.Errorf("the origin got %q; want the query as it came", r.URL.RawQuery)
		}
	})
	c := config(upstreamOf(o))
	c.Routes[0].Observe = true
	c.Routes[0].Query = weirhttp.QueryRules{Drop: []string{"utm_*"}}
	s := open(t, c)
	s.want("/?utm_a=1", 200, "same")
	s.want("/?utm_a=2", 200, "same")
	if st := s.stats(); st.Observed.Hits != 1 {
		t.Errorf("Observed = %+v; want 1 hit", st.Observed)
	}
}

// A header and a cookie in the key separate clients for any value, and identity rules
// hold (H3, H9).
func TestH3_PartsOfTheKey(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.URL.Path == "/private" {
				w.Header().Set("Cache-Control", "private, max-age=60")
			}
			if r.URL.Path == "/public" {
				w.Header().Set("Cache-Control", "public, max-age=60")
			}
			fmt.Fprintf(w, "%q %q", r.Header["X-Tenant"], r.Header["Cookie"])
		})
		c := config(upstreamOf(o))
		c.Routes[0].Cache.Vary, c.Routes[0].Cache.VaryCookies = []string{"X-Tenant"}, []string{"theme"}
		s := open(c)
		calls := o.calls.Load()
		want := func(what string, more int64, path, body string, fields ...string) {
			t.Helper()
			s.want(path, 200, body, fields...)
			calls += more
			if n := o.calls.Load(); n != calls {
				t.Errorf("%s: %d calls; want %d", what, n, calls)
				calls = n
			}
		}
		want("a", 1, "/", `["a"] []`, "X-Tenant", "a")
		want("a again", 0, "/", `["a"] []`, "X-Tenant", "a")
		want("b", 1, "/", `["b"] []`, "X-Tenant", "b")
		want("none", 1, "/", `[] []`)
		want("empty", 1, "/", `[""] []`, "X-Tenant", "")
		want("a separator", 1, "/", `["a-1:b"] []`, "X-Tenant", "a-1:b")
		want("with a dash", 1, "/", `["a-"] []`, "X-Tenant", "a-")
		want("case", 1, "/", `["A"] []`, "X-Tenant", "A")
		want("two lines", 1, "/", `["a" "b"] []`, "X-Tenant", "a", "X-Tenant", "b")
		long := strings.Repeat("x", 8000)
		want("a long value", 1, "/", `["`+long+`"] []`, "X-Tenant", long)
		want("a long value again", 0, "/", `["`+long+`"] []`, "X-Tenant", long)
		want("another long value", 1, "/", `["`+long+`y"] []`, "X-Tenant", long+"y")
		// A cookie in the key proves nothing about the rest of the field.
		want("ann", 1, "/", `[] ["theme=dark; user=ann"]`, "Cookie", "theme=dark; user=ann")
		want("ben", 1, "/", `[] ["theme=dark; user=ben"]`, "Cookie", "theme=dark; user=ben")
		want("public, ann", 1, "/public", `[] ["theme=dark; user=ann"]`, "Cookie", "theme=dark; user=ann")
		want("public, ben", 0, "/public", `[] ["theme=dark; user=ann"]`, "Cookie", "theme=dark; user=ben")
		want("public, light", 1, "/public", `[] ["theme=light"]`, "Cookie", "theme=light")
		want("twice", 1, "/public", `[] ["theme=light; theme=dark"]`, "Cookie", "theme=light; theme=dark")
		want("twice, the other way round", 1, "/public", `[] ["theme=dark; theme=light"]`, "Cookie", "theme=dark; theme=light")
		want("an empty value", 1, "/public", `[] ["theme="]`, "Cookie", "theme=")
		want("no value", 1, "/public", `[] ["theme"]`, "Cookie", "theme")
		want("another cookie's value", 1, "/public", `[] ["x=1; theme2=dark"]`, "Cookie", "x=1; theme2=dark")
		want("private, a", 1, "/private", `["a"] []`, "X-Tenant", "a")
		want("private, a again", 1, "/private", `["a"] []`, "X-Tenant", "a")
	})
}

// There is room for as many values as the route says, and a purge of the URL removes all.
func TestH9_ManyValuesOfAPartOfTheKey(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		io.WriteString(w, r.Header.Get("X-Tenant"))
	})
	const tenants = 200
	for most, want := range map[int]int64{0: 32, tenants: tenants} {
		c := config(upstreamOf(o))
		c.Routes[0].Cache.Vary, c.Routes[0].MaxVariants = []string{"X-Tenant"}, most
		s := open(t, c)
		for i := range tenants {
			s.want("/", 200, fmt.Sprint("t", i), "X-Tenant", fmt.Sprint("t", i))
		}
		s.stored(int(want))
		calls := o.calls.Load()
		for i := range int(want) {
			id := fmt.Sprint("t", tenants-1-i) // those stored last are still there
			s.want("/", 200, id, "X-Tenant", id)
		}
		if n := o.calls.Load() - calls; n != 0 {
			t.Errorf("max %d: %d calls; want hits for the last %d tenants", most, n, want)
		}
		host := strings.TrimPrefix(s.url, "http://")
		if n, err := s.g.Invalidate(t.Context(), "http", host, "/"); n != int(want) || err != nil {
			t.Errorf("max %d: Invalidate = %d, %v; want %d", most, n, err, want)
		}
	}
}
