package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) WriteHeader(int)             {}
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkHit is what a hit costs beside the server: routing and the cache.
func BenchmarkHit(b *testing.B) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, "a document")
	}))
	defer origin.Close()
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "origin", Servers: []string{origin.URL}}},
		Routes:    []gateway.Route{{Name: "all"}, {Name: "api", Path: "/api"}, {Name: "shop", Hosts: []string{"shop.example"}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	r := httptest.NewRequest(http.MethodGet, "/books/42", nil)
	r.Header.Set("User-Agent", "bench")
	r.Header.Set("Accept", "*/*")
	w := &blank{make(http.Header)}
	for b.Loop() {
		clear(w.h)
		g.ServeHTTP(w, r)
	}
}
