package howto_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/console"
)

// A Price is the result of queryPrice.
type Price struct{ Cents int }

// queryPrice stands in for a slow query.
func queryPrice(_ context.Context, sku string) (Price, error) { return Price{100 * len(sku)}, nil }

// mount is the reader's program, up to the console.
func mount(mux *http.ServeMux) (unmount func()) {
	prices := weir.Must(weir.New(queryPrice, weir.Options{
		Name:    "prices", // the console and the metrics call it so
		TTL:     time.Minute,
		HotKeys: 100, // off by default
	}))
	guards, err := console.Guards(prices)
	if err != nil {
		log.Fatal(err)
	}
	c, err := console.New(console.Options{
		Title:  "shop",
		Source: guards,
		Access: console.Access{Token: os.Getenv("CONSOLE_TOKEN")}, // without one: loopback only
	})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/weir/", c)
	return func() {
		c.Close(context.Background())
		prices.Close(context.Background())
	}
}

// watch serves a console of Guards, until the program ends.
func watch(guards ...weir.Inspector) error {
	source, err := console.Guards(guards...) // by their names
	if err != nil {
		return err
	}
	c, err := console.New(console.Options{Source: source})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	return http.ListenAndServe("127.0.0.1:9090", c) // over loopback no token is needed
}

// watch is compiled but not run: it would take a port that may be in use.
var _ = watch

func Example_console() {
	mux := http.NewServeMux()
	defer mount(mux)()
	server := httptest.NewServer(mux)
	defer server.Close()

	resp, err := http.Get(server.URL + "/weir/")
	if err != nil {
		panic(err)
	}
	page, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, strings.Contains(string(page), `id="main"`), err)
	// Output: 200 true <nil>
}
