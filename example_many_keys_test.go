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
