package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// The limit stands behind the cache and the coalescer, where it counts loads:
// four calls are one load, and one load per second is allowed.
func Example_rateLimit() {
	ctx := context.Background()
	perSecond, err := limit.NewRateLimiter(limit.RateOptions{
		PerSecond: 1,
		Queue:     -1, // no queue; 0 is the default
	})
	if err != nil {
		panic(err)
	}
	calculate := func(ctx context.Context, what string) (int, error) { return 42, nil }
	answers := weir.Must(weir.New(calculate, weir.Options{TTL: 10 * time.Second, Limiter: perSecond}))
	defer answers.Close(ctx)

	for range 4 {
		fmt.Println(answers.Get(ctx, "everything"))
	}
	_, err = answers.Get(ctx, "something else")
	fmt.Println("refused:", errors.Is(err, limit.ErrLimited))
	// Output:
	// 42 <nil>
	// 42 <nil>
	// 42 <nil>
	// 42 <nil>
	// refused: true
}
