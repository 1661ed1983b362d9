package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H32: a gateway shares and stores the reads that a route declares, and forwards the
// bytes of the client that leads.
func TestH32_Gateway(t *testing.T) {
	joined := make(chan struct{}) // closed when all other searches wait for the first
	o := serving(t, "search", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) {
			t.Errorf("the origin got %d bytes, %v; Content-Length %d", len(body), err, r.ContentLength)
		}
		<-joined
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s", r.Method, body)
	})
	c := config(upstreamOf(o))
	c.Routes = []gateway.Route{{
		Name: "search", Path: "/search", Cache: weirhttp.Policy{TTL: time.Minute},
		Reads: []weirhttp.ReadRule{{
			Methods: []string{"POST"}, Types: []string{"application/json"}, Compare: weirhttp.CompareJSON, Ignore: []string{"/user"},
		}},
	}, {Name: "rest"}}
	s := open(t, c)
	post := func(path, body string, chunked bool) reply {
		r := s.request("POST", path, strings.NewReader(body), "Content-Type", "application/json")
		if chunked {
			r.ContentLength = -1
		}
		return s.do(r)
	}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if r := post("/search", fmt.Sprintf(`{"q":1, "user":%d}`, i), i%2 == 0); r.status != 200 || !strings.HasPrefix(r.body, `POST {"q":1, "user":`) {
				t.Errorf("got %d %s, %v", r.status, r.body, r.err)
			}
		})
	}
	s.until("29 searches wait", func() bool { return s.g.Stats().Routes["search"].Waiting == 29 })
	close(joined)
	wg.Wait()
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls for 30 searches of one meaning; want 1", n)
	}
	if r := post("/search", `{"q":1.0}`, false); !strings.Contains(r.header.Get("Cache-Status"), "hit") {
		t.Errorf("Cache-Status = %q; want a hit", r.header.Get("Cache-Status"))
	}
	if r := post("/search", `{"q":2}`, false); r.body != `POST {"q":2}` {
		t.Errorf("another search got %s", r.body)
	}
	// Another route declares nothing.
	post("/other", `{"q":1}`, false)
	post("/other", `{"q":1}`, false)
	if n := o.calls.Load(); n != 4 {
		t.Errorf("%d calls; want 4", n)
	}
	route, e := s.g.Explain(s.request("POST", "/search", strings.NewReader(`{"q":1}`), "Content-Type", "application/json"))
	if route != "search" || e.Key == "" {
		t.Errorf("Explain = %s, %+v", route, e)
	}
}

// H32: the rules of a route are checked.
func TestH32_GatewayChecksRules(t *testing.T) {
	c := config(gateway.Upstream{Name: "main", Servers: []string{"http://127.0.0.1:1"}})
	c.Routes[0].Reads = []weirhttp.ReadRule{{Methods: []string{"PUT"}, Types: []string{"a/b"}}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Routes[0].Reads[0].Methods") {
		t.Errorf("Validate = %v; want a fault of Routes[0].Reads[0].Methods", err)
	}
}
