package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func ExampleHandler_Explain() {
	account := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "hello")
	})
	h, err := weirhttp.New(account, weirhttp.Options{})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://shop.example/", nil))
	r := httptest.NewRequest("GET", "http://shop.example/", nil)
	r.Header.Set("Authorization", "Bearer ada")
	e := h.Explain(r)
	fmt.Println(e.Answer)
	for _, step := range e.Steps {
		fmt.Println("-", step)
	}
	// Output:
	// call
	// - What is stored is not for requests with Authorization: it was not marked public or s-maxage.
	// - It has Authorization, and the URL has not answered so that those may share.
	// - It makes a call of its own, under the limits.
}
