package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/console"
)

// A console for two Guards, in addition to the program's own pages. From other
// machines it can be reached only with Options.Access.Token.
func Example() {
	articles := weir.Must(weir.New(loadArticle, weir.Options{Name: "articles", TTL: time.Minute, HotKeys: 20}))
	prices := weir.Must(weir.New(loadPrice, weir.Options{Name: "prices", TTL: time.Second, HotKeys: 20}))

	shown, err := console.Guards(articles, prices)
	if err != nil {
		log.Fatal(err)
	}
	c, err := console.New(console.Options{Title: "shop", Source: shown})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background()) // before the server is shut down, which waits for open streams

	mux := http.NewServeMux()
	mux.Handle("/console/", c)
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	for range 3 {
		articles.Get(ctx, 7)
	}
	prices.Get(ctx, "7/EUR")

	resp, err := http.Get(server.URL + "/console/api/snapshot")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var now console.Snapshot
	if err := json.NewDecoder(resp.Body).Decode(&now); err != nil {
		log.Fatal(err)
	}
	for _, u := range now.Units {
		fmt.Printf("%s: %d requests, %d hits, %d calls\n", u.Name, u.Requests, u.Avoided.Hits, u.Calls)
	}
	// Output:
	// articles: 3 requests, 2 hits, 1 calls
	// prices: 1 requests, 0 hits, 1 calls
}

func loadArticle(_ context.Context, id int) (string, error) {
	return fmt.Sprintf("article %d", id), nil
}

func loadPrice(_ context.Context, of string) (float64, error) { return 9.99, nil }
