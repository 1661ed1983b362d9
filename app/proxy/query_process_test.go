package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// H9, H12: query rules in the program, on the fast path too, and a purge by the URL that
// a client wrote.
func TestH9_QueryRulesAndPurge(t *testing.T) {
	var calls atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, r.RequestURI)
	}))
	defer origin.Close()
	file, outer, admin := filepath.Join(t.TempDir(), "weir.yaml"), free(t), free(t)
	put(t, file, fmt.Sprintf(`
listen: [{address: %s}]
admin: {address: %s}
upstreams: [{name: a, servers: [%q]}]
routes: [{name: a, query: {drop: ["utm_*"], sort: true}}]
`, outer, admin, origin.URL))
	start(t, "--config", file)
	for i := range 20 {
		for _, query := range []string{"b=%zz&a=1", "a=1&utm_x=1;b=2&b=%zz", "a=1&b=%zz&%75tm_y"} {
			resp, body := fetched(t, http.DefaultClient, "GET", "http://"+outer+"/x?"+query)
			if resp.StatusCode != 200 || body != "/x?a=1&b=%zz" {
				t.Errorf("request %d of %s: %d %q", i, query, resp.StatusCode, body)
			}
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
	order := fmt.Sprintf(`{"url": "http://%s/x?utm_mail=1&b=%%zz&a=1"}`, outer)
	resp, err := http.Post("http://"+admin+"/purge", "application/json", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), `"responses": 1`) && !strings.Contains(string(b), `"responses":1`) {
		t.Errorf("the purge of %s = %d %s; want 1 response", order, resp.StatusCode, b)
	}
	fetched(t, http.DefaultClient, "GET", "http://"+outer+"/x?a=1&b=%zz")
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls after the purge; want 2", n)
	}
}
