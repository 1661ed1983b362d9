package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// The source gets one load at a time. A call that would start another is
// refused with a Retry-After.
func Example_limits() {
	ctx := context.Background()
	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{
		Name:  "db",
		Limit: 1,
		Queue: -1, // no queue; 0 holds what is served within MaxWait
	})
	if err != nil {
		panic(err)
	}
	load := func(ctx context.Context, id int) (string, error) { return "Ada", nil }
	users := weir.Must(weir.New(load, weir.Options{TTL: time.Minute, Limiter: db}))
	defer users.Close(ctx)

	busy, _ := db.Acquire(ctx) // the load of another Guard

	_, err = users.Get(ctx, 7)
	var refused *limit.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Limiter, "refused:", refused.Reason)
		fmt.Println("Retry-After:", refused.RetryAfter)
	}

	busy.Release(limit.Success)
	fmt.Println(users.Get(ctx, 7))
	// Output:
	// db refused: queue full
	// Retry-After: 1s
	// Ada <nil>
}
