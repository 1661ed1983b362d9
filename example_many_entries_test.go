package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// LoadEntries gives each value its own tags, TTL and version, whichever method
// loads the key.
func ExampleSource_loadEntries() {
	ctx := context.Background()
	type price struct{ cents, revision int }
	prices := map[string]price{"tea": {350, 1}, "cake": {480, 1}}
	// It stands for SELECT item, cents, revision FROM prices WHERE item = ANY($1).
	query := func(ctx context.Context, items []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
		fmt.Println("query for", items)
		found := make(map[string]weir.Entry[int])
		for i, item := range items {
			p, ok := prices[item]
			version := fmt.Sprint(p.revision)
			switch {
			case !ok: // a missing item is not found
			case prev[i].Version == version:
				found[item] = weir.Entry[int]{NotModified: true}
			default:
				found[item] = weir.Entry[int]{Value: p.cents, Version: version, Tags: []string{"prices"}}
			}
		}
		return found, nil
	}
	menu := weir.Must(weir.NewFrom(weir.Source[string, int]{LoadEntries: query}, weir.Options{TTL: time.Hour}))
	defer menu.Close(ctx)

	menu.GetMany(ctx, []string{"tea", "cake"})
	prices["tea"] = price{370, 2}
	menu.InvalidateTags(ctx, "prices")
	for _, item := range []string{"tea", "cake"} {
		cents, err := menu.Get(ctx, item)
		fmt.Println(item, cents, err)
	}
	// Output:
	// query for [tea cake]
	// query for [tea]
	// tea 370 <nil>
	// query for [cake]
	// cake 480 <nil>
}
