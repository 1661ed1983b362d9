package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleNewTransport() {
	rates := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "1 EUR = 1.08 USD")
	}))
	defer rates.Close()

	t, err := weirhttp.NewTransport(http.DefaultTransport, weirhttp.Options{})
	if err != nil {
		panic(err)
	}
	defer t.Close(context.Background())
	client := &http.Client{Transport: t}

	for range 3 {
		resp, err := client.Get(rates.URL)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close() // or its request counts as one that waits
		fmt.Println(string(body), err)
	}
	s := t.Stats()
	fmt.Println(s.Requests, "requests,", s.Calls, "call")
	// Output:
	// 1 EUR = 1.08 USD <nil>
	// 1 EUR = 1.08 USD <nil>
	// 1 EUR = 1.08 USD <nil>
	// 3 requests, 1 call
}
