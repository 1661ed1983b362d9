package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

func Example_policy() {
	search := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("search, with Cookie:", r.Header.Get("Cookie"))
		fmt.Fprint(w, "3 mills") // and not a word about caching
	})
	h, err := weirhttp.New(search, weirhttp.Options{Policy: weirhttp.Policy{
		TTL:           time.Minute,
		StaleIfError:  time.Hour,
		VaryCookies:   []string{"lang"}, // answers are kept apart by it
		IgnoreCookies: []string{"*"},    // and the others are taken out
	}})
	if err != nil {
		panic(err)
	}
	defer h.Close(context.Background())

	for _, cookie := range []string{"lang=de; visit=1", "visit=2; lang=de", "lang=en"} {
		r := httptest.NewRequest("GET", "http://shop.example/search?q=mill", nil)
		r.Header.Set("Cookie", cookie)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// search, with Cookie: lang=de
	// search, with Cookie: lang=en
}
