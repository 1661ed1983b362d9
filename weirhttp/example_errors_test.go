package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func ExampleError() {
	ctx := context.Background()
	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: -1})
	if err != nil {
		panic(err)
	}
	query := func(ctx context.Context, id string) (string, error) { return "Ada", nil }
	users := weir.Must(weir.New(query, weir.Options{TTL: time.Minute, Limiter: db}))
	defer users.Close(ctx)

	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := users.Get(r.Context(), r.PathValue("id"))
		if err != nil {
			weirhttp.Error(w, r, err)
			return
		}
		fmt.Fprintln(w, name)
	})

	busy, _ := db.Acquire(ctx) // somebody else's query
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/users/7", nil))
	fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After"))

	busy.Release(limit.Success)
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/users/7", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 503 Retry-After: 1
	// 200 Ada
}
