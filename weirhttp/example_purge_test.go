package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleCache_InvalidateTags() {
	cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
	if err != nil {
		panic(err)
	}
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("render", r.URL.Path)
		w.Header().Set("Cache-Control", "max-age=3600")
		if r.URL.Path != "/about" {
			w.Header().Set("Surrogate-Key", "prices shop")
		}
	})
	h, err := weirhttp.New(pages, weirhttp.Options{Cache: cache})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	ask := func() {
		for _, path := range []string{"/offers", "/mill", "/about"} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://shop.example"+path, nil))
		}
	}
	ask()
	if err := cache.InvalidateTags(context.Background(), "prices"); err != nil {
		fmt.Println(err) // done here, not in the whole fleet
	}
	fmt.Println("the prices have changed")
	ask()
	// Output:
	// render /offers
	// render /mill
	// render /about
	// the prices have changed
	// render /offers
	// render /mill
}
