package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp"
)

// H21, H34: Explain estimates the cost of a request as its call does, and leaves its body
// to it.
func TestH34_ExplainEstimatesTheCost(t *testing.T) {
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprintf(w, "%d", len(b))
	})
	h, err := weirhttp.New(origin, weirhttp.Options{
		Cost:  weirhttp.Cost{Units: 3, Field: "/max_tokens", Default: 7, BytesPerUnit: 100},
		Reads: []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"application/json"}, MaxBody: 5000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	for _, tt := range []struct {
		name, method, media, body string
		cost                      int
		answer                    string
	}{
		{"no body", "GET", "", "", 10, "lead"},
		{"a read", "POST", "application/json", `{"max_tokens": 40}`, 44, "lead"},
		{"the same read", "POST", "application/json", `{"max_tokens": 40}`, 0, "hit"},
		{"no field", "POST", "application/json", `{"a": 1}`, 11, "lead"},
		{"no read", "POST", "text/plain", `{"max_tokens": 50}`, 54, "pass"},
		{"another method", "PUT", "application/json", `{"max_tokens": 60}`, 64, "pass"},
		{"a long body", "PUT", "application/json", `{"max_tokens": 60, "a": "` + strings.Repeat("x", 70_000) + `"}`, 711, "pass"},
		{"a read that is too long", "POST", "application/json", `{"max_tokens": 60, "a": "` + strings.Repeat("x", 5000) + `"}`, 114, "pass"},
	} {
		request := func() *http.Request {
			r := httptest.NewRequest(tt.method, "http://h/", strings.NewReader(tt.body))
			if tt.media != "" {
				r.Header.Set("Content-Type", tt.media)
			}
			return r
		}
		e := h.Explain(request())
		before := h.Stats().Cost.Spent
		h.ServeHTTP(httptest.NewRecorder(), request())
		spent := h.Stats().Cost.Spent - before
		if e.Answer != tt.answer || e.Cost != tt.cost || int(spent) != tt.cost {
			t.Errorf("%s: explained as %s for %d, and spent %d; want %s for %d: %q", tt.name, e.Answer, e.Cost, spent, tt.answer, tt.cost, e.Steps)
		}
		if !strings.Contains(strings.Join(e.Steps, " "), "estimate") || strings.Contains(strings.Join(e.Steps, " "), "max_tokens") {
			t.Errorf("%s: the steps are %q; want an estimate, and nothing of the body", tt.name, e.Steps)
		}
	}
	h, err = weirhttp.New(origin, weirhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if e := h.Explain(httptest.NewRequest("GET", "http://h/", nil)); e.Cost != 0 || strings.Contains(strings.Join(e.Steps, " "), "cost") {
		t.Errorf("explained %d, %q; want no cost without Options.Cost", e.Cost, e.Steps)
	}
}
