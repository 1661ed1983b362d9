package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// After a write, Invalidate: the next Get loads, and a load that read the old
// row and is still running does not bring it back.
func ExampleGuard_Invalidate() {
	ctx := context.Background()
	name := "Ada"
	query := func(ctx context.Context, id int) (string, error) { return name, nil }
	users := weir.Must(weir.New(query, weir.Options{TTL: time.Hour}))
	defer users.Close(ctx)

	before, _ := users.Get(ctx, 7)
	name = "Ada Lovelace" // UPDATE users SET name = ..., committed
	if err := users.Invalidate(ctx, 7); err != nil {
		panic(err)
	}
	after, _ := users.Get(ctx, 7)
	fmt.Printf("%s, then %s\n", before, after)
	// Output: Ada, then Ada Lovelace
}

// Set puts the new value in place without a load.
func ExampleGuard_Set() {
	ctx := context.Background()
	query := func(ctx context.Context, id int) (string, error) { return "Ada", nil }
	users := weir.Must(weir.New(query, weir.Options{TTL: time.Hour}))
	defer users.Close(ctx)

	if err := users.Set(ctx, 7, "Ada Lovelace"); err != nil {
		panic(err)
	}
	name, err := users.Get(ctx, 7)
	fmt.Println(name, err, users.Stats().Loads)
	// Output: Ada Lovelace <nil> 0
}

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
