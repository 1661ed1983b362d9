package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/examples/internal/pgtest"
)

func TestQuery(t *testing.T) {
	db := pgtest.Open(t)
	products, err := newProducts(db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	defer products.Close(t.Context())
	h := newHandler(products)
	get := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
	}

	const pen = `200 {"id":1,"name":"pen","cents":250}`
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if got := get("/products/1"); got != pen {
				t.Errorf("GET /products/1 = %s; want %s", got, pen)
			}
		})
	}
	all.Wait()
	if n := db.Queries.Load(); n != 1 {
		t.Errorf("100 requests made %d queries; want 1", n)
	}
	for path, want := range map[string]string{"/products/9": "404", "/products/x": "400"} {
		if got := get(path); !strings.HasPrefix(got, want) {
			t.Errorf("GET %s = %s; want %s", path, got, want)
		}
	}

	// When the database fails, the known product is served past its TTL, and an unknown
	// one gives an error.
	if _, err := db.Exec(t.Context(), "ALTER TABLE products RENAME TO gone"); err != nil {
		t.Fatal(err)
	}
	if err := products.Expire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := get("/products/1"); got != pen {
		t.Errorf("while the database fails: %s; want %s", got, pen)
	}
	if got := get("/products/2"); !strings.HasPrefix(got, "5") {
		t.Errorf("a product that was never loaded, while the database fails: %s; want an error", got)
	}
}
