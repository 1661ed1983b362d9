package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleNew() {
	report := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("half a second of work")
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "42")
	})
	h, err := weirhttp.New(report, weirhttp.Options{})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background()) // after the server has ended

	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example/report", nil))
		fmt.Println(w.Body, "|", w.Header().Get("Cache-Status"))
	}
	// Output:
	// half a second of work
	// 42 | weir; fwd=uri-miss; fwd-status=200; ttl=60; stored
	// 42 | weir; hit; ttl=60
}
