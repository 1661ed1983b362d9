package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// The key and the forwarded request both come from the rewritten one, so they cannot
// differ. The caller's request stays as it came.
func TestH9_RewriteComesBeforeTheKey(t *testing.T) {
	var got []string
	o := serving(t, "", func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprint(r.Method, " ", r.Host, " ", r.RequestURI, " ", r.Header.Get("X-Tenant"), " ", r.Header.Get("X-Forwarded-Host")))
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Vary", "X-Tenant")
		fmt.Fprint(w, len(got))
	})
	c := config(upstreamOf(o))
	c.Routes[0].Rewrite = func(r *http.Request) {
		tenant, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path, r.URL.RawPath = "/"+rest, ""
		r.Host = "inner.example"
		r.Header.Set("X-Tenant", tenant)
		r.Header.Del("CDN-Loop")
		q := r.URL.Query()
		q.Del("utm")
		r.URL.RawQuery = q.Encode()
		r.Method, r.Body, r.RemoteAddr = "DELETE", nil, "nobody" // which it cannot change
	}
	s := open(t, c)
	s.want("/ann/a%20b?utm=1&x=2", 200, "1")
	s.want("/ann/a%20b?x=2&utm=3", 200, "1")
	s.want("/bob/a%20b?x=2", 200, "2")
	s.want("/bob/other", 200, "3")
	want := []string{
		"GET inner.example /a%20b?x=2 ann inner.example",
		"GET inner.example /a%20b?x=2 bob inner.example",
		"GET inner.example /other bob inner.example",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("forwarded %q; want %q", got, want)
	}
	r := httptest.NewRequest("GET", "http://outer.example/bob/other?utm=9", nil)
	if _, e := s.g.Explain(r); e.Answer != "hit" || !strings.Contains(e.Key, "/other") || strings.Contains(e.Key, "bob") {
		t.Errorf("Explain = %+v; want a hit of the rewritten URL", e)
	}
	if r.URL.Path != "/bob/other" || r.Host != "outer.example" || r.Header.Get("X-Tenant") != "" {
		t.Errorf("the caller's request is %v, %q now; want it as it was", r.URL, r.Host)
	}
	if n, err := s.g.Cache().Invalidate(t.Context(), "http", "inner.example", "/other"); n != 1 || err != nil {
		t.Errorf("Invalidate = %d, %v; want one, by the rewritten URL", n, err)
	}
}

// The loop is still found behind a Rewrite that removes what tells of it, and a result
// that cannot be forwarded reaches nobody.
func TestH25_RewriteHidesNoLoop(t *testing.T) {
	var loops []string
	o := serving(t, "", func(_ http.ResponseWriter, r *http.Request) { loops = append(loops, r.Header.Get("CDN-Loop")) })
	c := config(upstreamOf(o))
	c.Routes[0].Rewrite = func(r *http.Request) { r.Header.Del("CDN-Loop") }
	s := open(t, c)
	s.want("/", 200, "", "CDN-Loop", "other")
	if len(loops) != 1 || !strings.HasPrefix(loops[0], "other, weir-") {
		t.Errorf("CDN-Loop = %q; want the name of the one before, and ours", loops)
	}
	s.want("/again", 508, "", "CDN-Loop", loops[0])
	for name, rewrite := range map[string]func(*http.Request){
		"no URL":      func(r *http.Request) { r.URL = nil },
		"no Header":   func(r *http.Request) { r.Header = nil },
		"no slash":    func(r *http.Request) { r.URL.Path, r.URL.RawPath = "x", "" },
		"no host":     func(r *http.Request) { r.Host = "a b" },
		"not escaped": func(r *http.Request) { r.URL.RawQuery = "a b" },
	} {
		c.Routes[0].Rewrite = rewrite
		s.update(c)
		if got := s.get("/x"); got.status != 500 {
			t.Errorf("%s = %d %q; want 500", name, got.status, got.body)
		}
	}
	if len(loops) != 1 {
		t.Errorf("%d calls; want none of a request that cannot be forwarded", len(loops))
	}
}

// The rate is that of the clients as they came: Rewrite makes no new ones.
func TestH13_RewriteComesAfterTheRate(t *testing.T) {
	n := 0
	c := config(upstreamOf(serving(t, "a", nil)))
	c.Routes[0].Rate, c.Routes[0].RateBy = &weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour}, "header:X-User"
	c.Routes[0].Rewrite = func(r *http.Request) { n++; r.Header.Set("X-User", fmt.Sprint(n)) }
	s := open(t, c)
	s.want("/1", 200, "", "X-User", "ann")
	s.want("/2", 429, "", "X-User", "ann")
	if n != 1 {
		t.Errorf("Rewrite was called %d times; want once", n)
	}
}

// Each response that the Gateway makes itself goes through the ErrorHandler.
func TestH21_TheGatewaysErrorHandler(t *testing.T) {
	o := serving(t, "a", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	c := config(upstreamOf(o))
	c.Routes[0].Path = "/shop"
	c.Routes[0].MaxBody = 5
	c.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, e weirhttp.ErrorResponse) {
		w.WriteHeader(e.Status)
		fmt.Fprintf(w, "custom %d %v", e.Status, e.Err)
	}
	s := open(t, c)
	s.want("/nowhere", 404, "custom 404 "+gateway.ErrNoRoute.Error())
	s.want("/shop", 502, "custom 502 ")
	if got := s.do(s.request("TRACE", "/shop", nil)); got.status != 405 || got.body != "custom 405 "+gateway.ErrRejected.Error() || got.header.Get("Allow") == "" {
		t.Errorf("TRACE = %d %q, %v; want 405 by the handler, with Allow", got.status, got.body, got.header)
	}
	if got := s.do(s.request("POST", "/shop", strings.NewReader("too long"))); got.status != 413 || !strings.HasPrefix(got.body, "custom 413") {
		t.Errorf("POST = %d %q; want 413 by the handler", got.status, got.body)
	}
	closed := open(t, c)
	if err := closed.g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed.want("/shop", 503, "custom 503 ")
	c.ErrorHandler = nil
	s.update(c)
	s.want("/nowhere", 404, "404 Not Found: no route matches this request\n")
	s.want("/shop", 502, "502 Bad Gateway")
}

// H9: fields with an underscore do not reach the servers, unless the operator wants them or
// sets them.
func TestH9_FieldsWithUnderscoresAreDropped(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var got http.Header
		var trailer http.Header
		o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			got, trailer = r.Header.Clone(), r.Trailer.Clone()
			w.Header().Set("Cache-Control", "max-age=60")
		})
		c := config(upstreamOf(o))
		c.KeepUnderscores = keep
		c.Routes[0].SetRequest = http.Header{"X_operator": {"1"}}
		s := open(t, c)
		r := s.request("PUT", "/x", struct{ io.Reader }{strings.NewReader("body")})
		r.Header["Transfer_Encoding"] = []string{"chunked"}
		r.Header["Content_Length"] = []string{"7"}
		r.Header["X_User"] = []string{"admin"}
		r.Header["X-User"] = []string{"me"}
		r.Trailer = http.Header{"X_sum": {"1"}, "X-Sum": {"2"}}
		if res := s.do(r); res.status != 200 {
			t.Fatalf("keep=%v: %d %v; want 200", keep, res.status, res.err)
		}
		for _, name := range []string{"Transfer_encoding", "Content_length", "X_user"} {
			if _, there := got[name]; there != keep {
				t.Errorf("keep=%v: the server got %s: %v", keep, name, there)
			}
		}
		if _, there := trailer["X_sum"]; there != keep || trailer.Get("X-Sum") != "2" || got.Get("X-User") != "me" || got.Get("X_operator") != "1" {
			t.Errorf("keep=%v: the server got %v and the trailers %v", keep, got, trailer)
		}
	}
}
