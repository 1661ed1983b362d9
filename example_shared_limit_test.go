package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// Two Guards read one database. They share its limits: a rate, then a number
// of permits.
func Example_sharedLimit() {
	ctx := context.Background()
	rate, err1 := limit.NewRateLimiter(limit.RateOptions{PerSecond: 500, Burst: 50})
	permits, err2 := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 20})
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	db := limit.All(rate, permits)

	user := func(ctx context.Context, id int) (string, error) { return "Ada", nil }
	order := func(ctx context.Context, id string) (int, error) { return 999, nil } // in cents
	users := weir.Must(weir.New(user, weir.Options{TTL: time.Minute, Limiter: db}))
	orders := weir.Must(weir.New(order, weir.Options{TTL: time.Minute, Limiter: db}))

	for range 10 {
		users.Get(ctx, 7)
		orders.Get(ctx, "A-1")
	}
	fmt.Println("20 calls,", permits.Stats().Admitted, "of them admitted to the database")
	// Output: 20 calls, 2 of them admitted to the database
}
