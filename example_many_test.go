package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// GetMany asks the source once for all keys that memory does not have.
func ExampleGuard_GetMany() {
	ctx := context.Background()
	names := map[int]string{1: "Ada", 2: "Grace", 3: "Edsger"}
	// It stands for SELECT id, name FROM users WHERE id = ANY($1).
	query := func(ctx context.Context, ids []int) (map[int]string, error) {
		fmt.Println("query for", ids)
		found := make(map[int]string)
		for _, id := range ids {
			if name, ok := names[id]; ok {
				found[id] = name // a missing id is not found
			}
		}
		return found, nil
	}
	users := weir.Must(weir.NewFrom(weir.Source[int, string]{LoadMany: query}, weir.Options{
		TTL:         time.Minute,
		NegativeTTL: time.Minute,
	}))
	defer users.Close(ctx)

	name, err := users.Get(ctx, 1)
	fmt.Println(name, err)

	ids := []int{1, 2, 3, 4}
	results := users.GetMany(ctx, ids)
	for _, id := range ids {
		r := results[id]
		fmt.Println(id, r.State, r.Value, r.Err)
	}
	// Output:
	// query for [1]
	// Ada <nil>
	// query for [2 3 4]
	// 1 fresh Ada <nil>
	// 2 loaded Grace <nil>
	// 3 loaded Edsger <nil>
	// 4 negative  weir: not found
}

// GetManySeq is GetMany in the order of the keys. The missing keys are one
// query, which starts with the iteration.
func ExampleGuard_GetManySeq() {
	ctx := context.Background()
	query := func(ctx context.Context, ids []int) (map[int]string, error) {
		fmt.Println("query for", ids)
		return map[int]string{1: "Ada", 2: "Grace"}, nil
	}
	users := weir.Must(weir.NewFrom(weir.Source[int, string]{LoadMany: query}, weir.Options{TTL: time.Minute}))
	defer users.Close(ctx)

	for id, r := range users.GetManySeq(ctx, []int{2, 1, 2}) {
		fmt.Println(id, r.Value, r.Err)
	}
	// Output:
	// query for [2 1]
	// 2 Grace <nil>
	// 1 Ada <nil>
	// 2 Grace <nil>
}

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
