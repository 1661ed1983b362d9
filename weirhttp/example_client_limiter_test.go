package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleNewClientLimiter() {
	clients, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 60, Per: time.Minute, Burst: 2})
	if err != nil {
		panic(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	h, err := weirhttp.New(hello, weirhttp.Options{ClientLimiter: clients})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d, RateLimit: %s, Retry-After: %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, RateLimit: "default";r=1;t=1, Retry-After: ""
	// 200, RateLimit: "default";r=0;t=1, Retry-After: ""
	// 429, RateLimit: "default";r=0;t=1, Retry-After: "1"
}

// A ClientLimiter in front of a mux that has no Handler of weir.
func ExampleClientLimiter_Wrap() {
	clients, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 60, Per: time.Minute, Burst: 2})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	server := clients.Wrap(mux)

	for range 3 {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
		fmt.Print(w.Code, " ", w.Header().Get("Retry-After"), " ", w.Body, "\n")
	}
	// Output:
	// 200  hello
	// 200  hello
	// 429 1 429 Too Many Requests: too many requests from this client; try again in 1 s
}
