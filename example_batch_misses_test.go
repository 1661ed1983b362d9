package weir_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir"
)

// Three goroutines that each miss one key cause one query.
func ExampleBatching() {
	ctx := context.Background()
	names := map[int]string{1: "Ada", 2: "Grace", 3: "Edsger"}
	query := func(ctx context.Context, ids []int) (map[int]string, error) {
		fmt.Println("one query for", len(ids), "users")
		found := make(map[int]string)
		failed := make(weir.KeyErrors[int])
		for _, id := range ids {
			if name, ok := names[id]; ok {
				found[id] = name
			} else {
				failed[id] = fmt.Errorf("user %d is locked", id) // it fails alone
			}
		}
		return found, failed
	}
	users := weir.Must(weir.NewFrom(weir.Source[int, string]{LoadMany: query}, weir.Options{
		TTL:   time.Minute,
		Batch: weir.Batching{MaxSize: 3, Linger: 2 * time.Second},
	}))
	defer users.Close(ctx)

	var wg sync.WaitGroup
	for _, id := range []int{1, 2, 7} {
		wg.Go(func() { users.Get(ctx, id) })
	}
	wg.Wait()
	name, err := users.Get(ctx, 1)
	fmt.Println(name, err)
	// Output:
	// one query for 3 users
	// Ada <nil>
}
