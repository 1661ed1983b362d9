package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
