package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/weirhttp"
)

func Example_reads() {
	search := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Cache-Control", "max-age=30")
		fmt.Fprintf(w, "results of %s", body)
	})
	h, err := weirhttp.New(search, weirhttp.Options{Reads: []weirhttp.ReadRule{{
		Methods: []string{"POST"},
		Types:   []string{"application/json"},
		Compare: weirhttp.CompareJSON,
		Ignore:  []string{"/trace"},
	}}})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	for _, body := range []string{`{"q": "mill", "size": 10}`, `{"size":1e1,"q":"mill","trace":7}`} {
		r := httptest.NewRequest("POST", "http://shop.example/search", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Body, "|", w.Header().Get("Cache-Status"))
	}
	// Output:
	// results of {"q": "mill", "size": 10} | weir; fwd=uri-miss; fwd-status=200; ttl=30; stored
	// results of {"q": "mill", "size": 10} | weir; hit; ttl=30
}
