package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/examples/internal/pgtest"
)

func TestTags(t *testing.T) {
	db := pgtest.Open(t)
	s, err := newShop(db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.pages.Close(t.Context())
	h := s.handler()
	do := func(method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
		if w.Code != 200 {
			t.Errorf("%s %s = %d %s; want 200", method, target, w.Code, w.Body)
		}
		return w
	}
	shows := func(category, text string) {
		t.Helper()
		if body := do("GET", "/categories/"+category).Body.String(); !strings.Contains(body, text) {
			t.Errorf("%s = %s; want it to contain %q", category, body, text)
		}
	}

	shows("desk", `"cents":250`)
	shows("kitchen", `"cents":700`)
	age := do("GET", "/categories/desk").Header().Get("Cache-Control")
	if age != "max-age=59" && age != "max-age=60" {
		t.Errorf("Cache-Control = %q; want the rest of a minute", age)
	}

	before := db.Queries.Load()
	do("PUT", "/products/1/price?cents=300")
	shows("desk", `"cents":300`)
	shows("kitchen", `"cents":700`)
	if n := db.Queries.Load() - before; n != 2 {
		t.Errorf("%d queries after the price changed; want 2: the update and the page that shows the product", n)
	}
}
