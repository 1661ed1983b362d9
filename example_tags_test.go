package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// A tag names all entries that one change makes wrong.
func ExampleGuard_InvalidateTags() {
	ctx := context.Background()
	load := func(ctx context.Context, page string, _ weir.Previous[string]) (weir.Entry[string], error) {
		fmt.Println("render", page)
		tags := []string{"prices"}
		if page == "about" {
			tags = nil
		}
		return weir.Entry[string]{Value: "<html>", Tags: tags}, nil
	}
	pages := weir.Must(weir.NewFrom(weir.Source[string, string]{LoadEntry: load}, weir.Options{TTL: time.Hour}))
	defer pages.Close(ctx)

	for _, page := range []string{"shop", "offers", "about"} {
		pages.Get(ctx, page)
	}
	pages.InvalidateTags(ctx, "prices")
	fmt.Println("the prices have changed")
	for _, page := range []string{"shop", "offers", "about"} {
		pages.Get(ctx, page)
	}
	// Output:
	// render shop
	// render offers
	// render about
	// the prices have changed
	// render shop
	// render offers
}
