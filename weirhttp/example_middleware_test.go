package weirhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

// Two routes of one mux share a cache, and their errors are JSON.
func ExampleNewMiddleware() {
	m, err := weirhttp.NewMiddleware(weirhttp.Options{
		Name: "shop",
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, e weirhttp.ErrorResponse) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(e.Status)
			_ = json.NewEncoder(w).Encode(map[string]any{"status": e.Status, "error": e.Text})
		},
	})
	if err != nil {
		panic(err)
	}
	defer m.Close(context.Background()) // after the server has ended

	mux := http.NewServeMux()
	mux.Handle("/prices", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "tea 3.20")
	})))
	mux.Handle("/stock", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		weirhttp.SinkOf(w).Fail(errors.New("the database is away"))
	})))

	for _, path := range []string{"/prices", "/prices", "/stock"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example"+path, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 tea 3.20
	// 200 tea 3.20
	// 500 {"error":"the service failed","status":500}
}
