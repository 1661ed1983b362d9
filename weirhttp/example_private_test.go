package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleNewPrivateTransport() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the API is called with", r.Header.Get("Authorization"))
		w.Header().Set("Cache-Control", "private, max-age=60")
		fmt.Fprint(w, "the profile for ", r.Header.Get("Authorization"))
	}))
	defer api.Close()

	t, err := weirhttp.NewPrivateTransport(http.DefaultTransport, weirhttp.Options{})
	if err != nil {
		panic(err)
	}
	defer t.Close(context.Background())
	client := &http.Client{Transport: t}

	for _, token := range []string{"Bearer ada", "Bearer bob", "Bearer ada"} {
		r, err := http.NewRequest("GET", api.URL+"/me", nil)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Authorization", token)
		resp, err := client.Do(r)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(string(body))
	}
	// Output:
	// the API is called with Bearer ada
	// the profile for Bearer ada
	// the API is called with Bearer bob
	// the profile for Bearer bob
	// the profile for Bearer ada
}
