package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

func ExampleNew() {
	search := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("search", r.URL.Query().Get("q"))
		fmt.Fprint(w, "3 mills")
	}))
	defer search.Close()

	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "search", Servers: []string{search.URL}, Concurrency: 20}},
		Routes: []gateway.Route{
			{Name: "search", Path: "/search", Cache: weirhttp.Policy{TTL: time.Minute}},
			{Name: "rest"},
		},
	})
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	for range 2 { // a server does this: http.ListenAndServe(address, g)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example/search?q=mill", nil))
		fmt.Println(w.Code, w.Body)
	}
	fmt.Println(g.Stats().Routes["search"].Hits, "hit")
	// Output:
	// search mill
	// 200 3 mills
	// 200 3 mills
	// 1 hit
}

// The path of the public URL has the language, which the server wants as a field. The
// cache's key is made after Rewrite, so both languages are kept apart by Vary.
func ExampleRoute_rewrite() {
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Vary", "Accept-Language")
		fmt.Fprintln(w, r.URL.Path, "in", r.Header.Get("Accept-Language"))
	}))
	defer pages.Close()

	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "pages", Servers: []string{pages.URL}}},
		Routes: []gateway.Route{{Name: "pages", Rewrite: func(r *http.Request) {
			language, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			r.URL.Path, r.URL.RawPath = "/"+path, ""
			r.Header.Set("Accept-Language", language)
		}}},
	})
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	for _, path := range []string{"/de/about", "/en/about", "/de/about"} {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example"+path, nil))
		fmt.Print(w.Body)
	}
	st := g.Stats().Routes["pages"]
	fmt.Println(st.Calls, "calls,", st.Hits, "hit")
	// Output:
	// /about in de
	// /about in en
	// /about in de
	// 2 calls, 1 hit
}
