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
