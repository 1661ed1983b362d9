package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// echoing is an origin that answers with the method, the target and the body it got.
func echoing(t *testing.T) *origin {
	return serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusCreated)
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s%s", r.Method, r.RequestURI, b)
	})
}

// A request that changes something invalidates what another route has stored under other
// query rules, and what its response names (H9, H12).
func TestH9_ChangesReachTheRulesOfAllRoutes(t *testing.T) {
	o := echoing(t)
	c := config(upstreamOf(o))
	c.Routes = []gateway.Route{
		{Name: "read", Methods: []string{"GET", "HEAD"}, Query: weirhttp.QueryRules{Drop: []string{"utm_*"}, Sort: true}},
		{Name: "write"},
	}
	s := open(t, c)
	for _, change := range []struct{ method, target string }{
		{"POST", "/x?b=1&a=2"}, {"DELETE", "/x?utm_m=1&b=1&a=2"}, {"PUT", "/other?to=/x?b=1%26a=2%26utm_n"},
	} {
		s.want("/x?a=2&b=1&utm_s=1", 200, "GET /x?a=2&b=1")
		before := o.calls.Load()
		s.want("/x?b=1&a=2", 200, "GET /x?a=2&b=1")
		if n := o.calls.Load() - before; n != 0 {
			t.Fatalf("%d calls; want a hit", n)
		}
		s.do(s.request(change.method, change.target, nil))
		s.want("/x?a=2&b=1", 200, "GET /x?a=2&b=1")
		if n := o.calls.Load() - before; n != 2 {
			t.Errorf("%s %s: %d calls with the next GET; want 2, because it invalidates", change.method, change.target, n)
		}
	}
}

// Reads with a body have the rules too, and a purge by any URL of theirs finds them (H32).
func TestH32_QueryRulesOfReads(t *testing.T) {
	o := echoing(t)
	c := config(upstreamOf(o))
	c.Routes = []gateway.Route{
		{Name: "get", Methods: []string{"GET"}},
		{
			Name: "read", Query: weirhttp.QueryRules{Keep: []string{"v"}},
			Reads: []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"text/plain"}}},
		},
	}
	s := open(t, c)
	ask := func(method, target, body, want string, calls int64) {
		t.Helper()
		before := o.calls.Load()
		r := s.request(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "text/plain")
		if got := s.do(r); got.body != want {
			t.Errorf("%s %s = %q; want %q", method, target, got.body, want)
		}
		if n := o.calls.Load() - before; n != calls {
			t.Errorf("%s %s with %q: %d calls; want %d", method, target, body, n, calls)
		}
	}
	ask("POST", "/s?x=1&v=1", "q", "POST /s?v=1q", 1)
	ask("POST", "/s?v=1&y", "q", "POST /s?v=1q", 0)
	ask("POST", "/s?v=1", "r", "POST /s?v=1r", 1)
	ask("QUERY", "/s?v=1&y", "q", "QUERY /s?v=1q", 1)
	ask("QUERY", "/s?y&v=1", "q", "QUERY /s?v=1q", 0)
	host := strings.TrimPrefix(s.url, "http://")
	if _, err := s.g.Invalidate(t.Context(), "http", host, "/s?mail=1&v=1"); err != nil {
		t.Errorf("Invalidate = %v", err)
	}
	ask("POST", "/s?v=1&y", "q", "POST /s?v=1q", 1)
	ask("QUERY", "/s?v=1", "q", "QUERY /s?v=1q", 1)
}

// What stands in front of a route, such as jobs, compares requests as the rules leave
// them (H9, H23).
func TestH9_FrontGetsTheQueryOfTheRules(t *testing.T) {
	o := echoing(t)
	c := config(upstreamOf(o))
	c.Routes[0].Query = weirhttp.QueryRules{Drop: []string{"utm_*"}, Sort: true}
	var g *gateway.Gateway
	c.Front = func(string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Target", r.RequestURI+" "+r.URL.RawQuery)
			g.ServeRoute(w, r, "main")
		})
	}
	c.Routes[0].Name = "main"
	s := open(t, c)
	g = s.g
	got := s.raw("/x?b=%zz&utm_x=1&a=1")
	if x := got.header.Get("X-Target"); x != "/x?a=1&b=%zz a=1&b=%zz" || got.body != "GET /x?a=1&b=%zz" {
		t.Errorf("in front of the route: %q; the origin: %q", x, got.body)
	}
}

// After a change of the rules, requests get what the new ones say, and entries of the old
// ones are found by what the client sends then, if at all.
func TestH9_QueryRulesChange(t *testing.T) {
	o := echoing(t)
	c := config(upstreamOf(o))
	c.Routes[0].Query = weirhttp.QueryRules{Drop: []string{"utm_*"}}
	s := open(t, c)
	s.want("/x?utm_a=1&b=1", 200, "GET /x?b=1")
	c.Routes[0].Query = weirhttp.QueryRules{Drop: []string{"b"}}
	if err := s.g.Update(c); err != nil {
		t.Fatal(err)
	}
	s.want("/x?utm_a=1&b=1", 200, "GET /x?utm_a=1")
	c.Routes[0].Query = weirhttp.QueryRules{}
	if err := s.g.Update(c); err != nil {
		t.Fatal(err)
	}
	s.want("/x?utm_a=1&b=1", 200, "GET /x?utm_a=1&b=1")
	before := o.calls.Load()
	s.want("/x?b=1", 200, "GET /x?b=1")
	if n := o.calls.Load() - before; n != 0 {
		t.Errorf("%d calls; want the stored response of the same forwarded request", n)
	}
}
