package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

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
