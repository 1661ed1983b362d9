package weirhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
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
	browser := []string{
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
		"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
		"Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "de-AT,de;q=0.9,en;q=0.8",
		"Sec-Ch-Ua", `"Chromium";v="156"`, "Sec-Ch-Ua-Mobile", "?0", "Sec-Ch-Ua-Platform", `"Linux"`,
		"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Priority", "u=0, i",
		"Upgrade-Insecure-Requests", "1", "Referer", "https://shop.example/books",
	}
	for _, row := range []struct {
		name   string
		h      http.Handler
		fields []string
	}{
		{"weir", h, nil}, {"weir, a browser", h, browser}, {"ttl", strict, nil}, {"ttl, three fields count", strict, counting},
		{"8 variants", varied(b, 8), []string{"X-Variant", "v5"}}, {"200 variants", varied(b, 200), []string{"X-Variant", "v5"}},
		{"bare", bare, nil},
	} {
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

// varied returns a Handler that has n variants of /books/42, by X-Variant: v0, v1 ….
func varied(b *testing.B, n int) http.Handler {
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Vary", "X-Variant")
		_, _ = io.WriteString(w, r.Header.Get("X-Variant")+document)
	})
	h, err := weirhttp.New(origin, weirhttp.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		r := httptest.NewRequest(http.MethodGet, "/books/42", nil)
		r.Header.Set("X-Variant", fmt.Sprint("v", i))
		h.ServeHTTP(&blank{make(http.Header)}, r)
	}
	return h
}

// BenchmarkMiss measures the cost of a miss that is stored, with a trivial origin. A stampede is 100 requests for one URL while the call runs.
func BenchmarkMiss(b *testing.B) {
	for _, clients := range []int{1, 100} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			var arrived atomic.Int64
			origin := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for arrived.Load() < int64(clients) {
					runtime.Gosched()
				}
				w.Header().Set("Cache-Control", "max-age=3600")
				_, _ = io.WriteString(w, document)
			})
			h, err := weirhttp.New(origin, weirhttp.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				arrived.Store(0)
				var all sync.WaitGroup
				for range clients {
					all.Go(func() {
						r := httptest.NewRequest(http.MethodGet, "/books/"+strconv.Itoa(n), nil)
						arrived.Add(1)
						h.ServeHTTP(&blank{make(http.Header)}, r)
					})
				}
				all.Wait()
			}
		})
	}
}
