package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/examples/internal/pgtest"
)

func TestBulk(t *testing.T) {
	db := pgtest.Open(t)
	products, err := newProducts(db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	defer products.Close(t.Context())
	h := newHandler(products)
	wantQueries := func(target, want string, queries int64) {
		t.Helper()
		before := db.Queries.Load()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", target, nil))
		if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("GET %s = %s; want %s", target, got, want)
		}
		if n := db.Queries.Load() - before; n != queries {
			t.Errorf("GET %s made %d queries; want %d", target, n, queries)
		}
	}
	const (
		pen  = `{"id":1,"name":"pen","cents":250}`
		lamp = `{"id":2,"name":"lamp","cents":4900}`
		fork = `{"id":3,"name":"fork","cents":700}`
	)
	wantQueries("/products?id=3&id=1", "200 ["+fork+","+pen+"]", 1)
	wantQueries("/products?id=1&id=2&id=9&id=3", "200 ["+pen+","+lamp+","+fork+"]", 1) // 2 and 9
	wantQueries("/products?id=1&id=2&id=9&id=3", "200 ["+pen+","+lamp+","+fork+"]", 0)
	wantQueries("/products?id=x", "400 an id is not a number", 0)

	// For an unchanged row, only its version is loaded.
	if _, err := db.Exec(t.Context(), "UPDATE products SET cents = 5000 WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	if err := products.Expire(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(lamp, "4900", "5000", 1)
	wantQueries("/products?id=1&id=2", "200 ["+pen+","+changed+"]", 1)
	if st := products.Stats(); st.NotModified != 1 {
		t.Errorf("NotModified = %d; want 1", st.NotModified)
	}
	if r, ok := products.Peek(1); !ok || r.State != weir.StateFresh {
		t.Errorf("Peek(1) = %v, %v; want fresh again", r.State, ok)
	}
}
