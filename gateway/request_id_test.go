package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// An identified is a ResponseWriter that keeps the last Receipt.
type identified struct {
	*httptest.ResponseRecorder
	receipt weirhttp.Receipt
}

func (w *identified) SetReceipt(r weirhttp.Receipt) { w.receipt = r }

// H21, H27: the ID of a request is the same for the origin, the client, the access log and
// the error page, for each request that is not a hit, and never another request's.
func TestH21_RequestIDs(t *testing.T) {
	const field = "X-Request-Id"
	var mu sync.Mutex
	sent := map[string]string{} // by path
	origin := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent[r.URL.Path] = strings.Join(r.Header[field], ",")
		mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/kept") || strings.HasPrefix(r.URL.Path, "/echo") {
			w.Header().Set("Cache-Control", "max-age=60")
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/echo"):
			w.Header().Set(field, r.Header.Get(field))
		case strings.HasPrefix(r.URL.Path, "/own"):
			w.Header().Set(field, "origin-1")
		}
		io.WriteString(w, "x")
	})
	c := config(upstreamOf(origin))
	main := c.Upstreams[0].Name
	c.Upstreams = append(c.Upstreams, gateway.Upstream{Name: "down", Servers: []string{"http://127.0.0.1:1"}})
	c.Routes = []gateway.Route{
		{Name: "all", Hosts: []string{"example.com"}, Upstream: main},
		{Name: "down", Hosts: []string{"example.com"}, Path: "/down", Upstream: "down"},
		{Name: "small", Hosts: []string{"example.com"}, Path: "/small", MaxBody: 1, Upstream: main},
		{Name: "api", Hosts: []string{"example.com"}, Path: "/api", StripPrefix: "/api", Upstream: main},
	}
	c.ErrorHandler = func(w http.ResponseWriter, r *http.Request, e weirhttp.ErrorResponse) {
		w.WriteHeader(e.Status)
		fmt.Fprint(w, "page ", r.Header.Get(field))
	}
	s := open(t, c)
	do := func(method, path string, fields ...string) *identified {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		if method == "POST" {
			r = httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("body"))
		}
		for pair := range slices.Chunk(fields, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		w := &identified{ResponseRecorder: httptest.NewRecorder()}
		s.g.ServeHTTP(w, r)
		return w
	}
	for _, e := range []struct {
		name, method, path, id string
		status                 int
		calls                  bool
		want                   string // in the response; empty: the request's
	}{
		{"a miss", "GET", "/plain", "", 200, true, ""},
		{"with the client's ID", "GET", "/plain", "mine", 200, true, ""},
		{"with an ID that cannot be kept", "GET", "/plain", "a b", 200, true, ""},
		{"past the cache", "POST", "/plain", "", 200, true, ""},
		{"a response with the same ID", "POST", "/echo/post", "", 200, true, ""},
		{"a response to be stored", "GET", "/kept", "", 200, true, ""},
		{"a response with the same ID to be stored", "GET", "/echo", "", 200, true, ""},
		{"the origin's own ID", "GET", "/own", "", 200, true, "origin-1"},
		{"the origin's own ID, past the cache", "POST", "/own", "", 200, true, "origin-1"},
		{"the origin is down", "GET", "/down", "", 502, false, ""},
		{"no route", "GET", "http://other.example/", "", 404, false, ""},
		{"a body that is too large", "POST", "/small", "", 413, false, ""},
		{"a path that is not forwarded", "GET", "/api/../b", "", 400, false, ""},
		{"only if cached", "GET", "/never", "", 504, false, ""},
	} {
		mu.Lock()
		clear(sent)
		mu.Unlock()
		var fields []string
		if e.id != "" {
			fields = append(fields, field, e.id)
		}
		if e.path == "/never" {
			fields = append(fields, "Cache-Control", "only-if-cached")
		}
		w := do(e.method, e.path, fields...)
		id := w.receipt.RequestID
		if w.Code != e.status || id == "" || e.id == "mine" && id != "mine" || e.id == "a b" && len(id) != 32 {
			t.Errorf("%s: %d, ID %q in the receipt; want %d and an ID", e.name, w.Code, id, e.status)
		}
		if e.want == "" {
			e.want = id
		}
		if got := strings.Join(w.Header()[field], ","); got != e.want {
			t.Errorf("%s: the response has the ID %q; want %q", e.name, got, e.want)
		}
		if got := sent[e.path]; e.calls != (got == id) {
			t.Errorf("%s: the origin got the ID %q; want %v that it is %q", e.name, got, e.calls, id)
		}
		if w.Code >= 400 && w.Body.String() != "page "+id {
			t.Errorf("%s: the error page has %q; want the ID %q", e.name, w.Body, id)
		}
	}
	for _, path := range []string{"/kept", "/echo"} {
		if w := do("GET", path); w.receipt.Outcome != weirhttp.OutcomeHit || w.Header()[field] != nil {
			t.Errorf("%s: %v with the ID %q; want a hit without one", path, w.receipt.Outcome, w.Header()[field])
		}
	}
}

// H21: requests that share a call keep their own IDs.
func TestH21_SharedCallsKeepTheirRequestIDs(t *testing.T) {
	const field, n = "X-Request-Id", 8
	g := newGathering()
	origin := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set(field, r.Header.Get(field))
		io.WriteString(w, r.Header.Get(field))
	})
	s := open(t, config(upstreamOf(origin)))
	replies := s.crowd(n, s.same("/x"))
	g.await(t, 1)
	s.waiting(n - 1)
	g.letGo(1)
	ids := map[string]int{}
	own := 0
	for _, r := range replies() {
		ids[r.header.Get(field)]++
		if r.header.Get(field) == r.body {
			own++
		}
	}
	if len(ids) != n || ids[""] > 0 || own != 1 {
		t.Errorf("%d clients that shared a call have the IDs %v, %d of them the call's; want %d different ones, and 1", n, ids, own, n)
	}
}
