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
		fmt.Println("come back later:", refused.RetryAfter >= time.Second)
	}

	busy.Release(limit.Success)
	fmt.Println(users.Get(ctx, 7))
	// Output:
	// db refused: queue full
	// come back later: true
	// Ada <nil>
}

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

// A limit that adapts to the number of concurrent calls that the database can
// take, shared by two Guards, and a report with a lower priority.
func Example_adaptiveLimit() {
	db, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "db"})
	if err != nil {
		panic(err)
	}
	user := func(ctx context.Context, id int) (string, error) { return "Ada", nil }
	total := func(ctx context.Context, month string) (int, error) { return 999, nil } // in cents
	users := weir.Must(weir.New(user, weir.Options{TTL: time.Minute, Limiter: db}))
	totals := weir.Must(weir.New(total, weir.Options{TTL: time.Minute, Limiter: db}))

	ctx := context.Background()
	users.Get(ctx, 7)
	totals.Get(limit.ContextWithPriority(ctx, limit.Low), "2026-11")

	s := db.Stats()
	fmt.Println("limit", s.Limit, "after", s.Admitted, "calls")
	// Output: limit 10 after 2 calls
}

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
