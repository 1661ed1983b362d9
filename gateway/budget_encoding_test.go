package gateway_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H34: a client cannot hide what its call has cost behind an encoding, over real sockets: not
// from the budget of the route, and not from its own.
func TestH34_NoEncodingHidesTheUsage(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			text := `{"usage":{"total_tokens":40}}`
			if r.URL.Path == "/told" {
				w.Header().Set("Content-Encoding", "identity")
			}
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				_, _ = io.WriteString(z, text)
				return
			}
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(origin.Close)
		s := open(gateway.Config{
			Upstreams: []gateway.Upstream{{
				Name: "model", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Field: "/max_tokens", Default: 1, Usage: "/usage/total_tokens"},
			}},
			Routes: []gateway.Route{{
				Name: "all", Path: "/", Budget: &gateway.Budget{Units: 1000, Per: 24 * time.Hour},
				ClientBudget: &gateway.ClientBudget{Units: 1000, Per: 24 * time.Hour, By: "header:Authorization"},
			}},
		})
		left := func() float64 { return s.g.Stats().Budgets["all"].Left }
		for _, row := range []struct{ method, path, accept string }{
			{"POST", "/1", "gzip"}, {"POST", "/2", "gzip, identity;q=0"}, {"GET", "/3", "gzip"}, {"POST", "/told", "identity"}, {"POST", "/4", ""},
		} {
			before := left()
			r, err := http.NewRequest(row.method, s.url+row.path, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer ada")
			if row.accept != "" {
				r.Header.Set("Accept-Encoding", row.accept)
			}
			resp, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != `{"usage":{"total_tokens":40}}` {
				t.Errorf("%+v: got %q, %v", row, body, err)
			}
			s.until("it is settled", func() bool { return left() < before })
			if took := before - left(); took < 39 || took > 41 {
				t.Errorf("%+v: the route's budget paid %.1f units; want 40", row, took)
			}
		}
		r, err := http.NewRequest("POST", s.url+"/5", strings.NewReader(`{"max_tokens":801}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer ada")
		r.Header.Set("Content-Type", "application/json")
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 429 {
			t.Errorf("got %d for 801 units; want 429, because the client has paid 200 of 1000", resp.StatusCode)
		}
	})
}
