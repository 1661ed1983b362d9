package weirhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// blank is a ResponseWriter without any cost.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) WriteHeader(int)             {}
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }

const document = `{"id":42,"name":"A book that many people ask for","author":"Somebody","year":1999,"pages":321,"price":12.5,"in_stock":true,"tags":["a","b","cd"]}`

// BenchmarkHit measures the cost of a hit without the server, and that of the
// cheapest handler with the same response.
func BenchmarkHit(b *testing.B) {
	origin := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "max-age=3600")
		h.Set("Etag", `"1"`)
		_, _ = io.WriteString(w, document)
	})
	h, err := weirhttp.New(origin, weirhttp.Options{})
	if err != nil {
		b.Fatal(err)
	}
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "max-age=3600")
		h.Set("Etag", `"1"`)
		h.Set("Date", "Sat, 21 Nov 2026 13:00:00 GMT")
		h.Set("Age", "0")
		h.Set("Cache-Status", "weir; hit; ttl=3600")
		h.Set("Content-Length", "146")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, document)
	})
	silent := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) })
	strict, err := weirhttp.New(silent, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	counting := []string{"X-Api-Key", "0123456789abcdef", "X-Tenant", "acme", "X-Requested-With", "XMLHttpRequest"}
	for _, row := range []struct {
		name   string
		h      http.Handler
		fields []string
	}{{"weir", h, nil}, {"ttl", strict, nil}, {"ttl, three fields count", strict, counting}, {"bare", bare, nil}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "/books/42", nil)
			r.Header.Set("User-Agent", "bench")
			r.Header.Set("Accept", "*/*")
			for i := 0; i < len(row.fields); i += 2 {
				r.Header.Set(row.fields[i], row.fields[i+1])
			}
			w := &blank{make(http.Header)}
			for b.Loop() {
				clear(w.h)
				row.h.ServeHTTP(w, r)
			}
		})
	}
}
