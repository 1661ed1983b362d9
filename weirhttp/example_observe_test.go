package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/weirhttp"
)

func Example_observe() {
	// It answers by the language, and forgets to say so in Vary.
	greet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		if r.Header.Get("Accept-Language") == "de" {
			fmt.Fprint(w, "Guten Tag")
			return
		}
		fmt.Fprint(w, "Good day")
	})
	h, err := weirhttp.New(greet, weirhttp.Options{Observe: true})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	for _, language := range []string{"en", "en", "de"} {
		r := httptest.NewRequest("GET", "http://shop.example/", nil)
		r.Header.Set("Accept-Language", language)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Body)
	}
	o := h.Stats().Observed
	fmt.Println(o.Hits, "would have been hits,", o.Differed, "of them with another's answer")
	// Output:
	// Good day
	// Good day
	// Guten Tag
	// 2 would have been hits, 1 of them with another's answer
}
