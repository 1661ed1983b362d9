package weirhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirhttp"
)

func ExampleResponseError() {
	ctx := context.Background()
	calls := 0
	rates := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer rates.Close()

	load := func(ctx context.Context, currency string) (rate float64, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, rates.URL+"/"+currency, nil)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if err := weirhttp.ResponseError(resp); err != nil {
			return 0, err
		}
		err = json.NewDecoder(resp.Body).Decode(&rate)
		return rate, err
	}
	guard := weir.Must(weir.New(load, weir.Options{TTL: time.Minute, StaleIfError: time.Hour}))
	defer guard.Close(ctx)

	var err error
	for range 100 {
		_, err = guard.Get(ctx, "EUR")
	}
	fmt.Println(calls, "call:", err)
	fmt.Println(weirhttp.ErrorResponseTo(err).Status)
	// Output:
	// 1 call: weirhttp: the response has status 429
	// 503
}
