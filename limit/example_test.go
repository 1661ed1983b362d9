package limit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/limit"
)

func ExampleConcurrency() {
	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	query := func(ctx context.Context) error {
		p, err := db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below

		_, err = db.Acquire(ctx) // meanwhile, somebody else
		fmt.Println(err)

		p.Release(limit.Success)
		return nil
	}
	fmt.Println(query(context.Background()), db.Stats().InUse)
	// Output:
	// limit: "db": queue full, retry after 1s
	// <nil> 0
}

func ExampleError() {
	api, _ := limit.NewRateLimiter(limit.RateOptions{Name: "api", PerSecond: 1e-9, Burst: 1, MaxWait: -1})
	api.TryAcquire()

	_, err := api.TryAcquire()
	var refusal *limit.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Reason, refusal.RetryAfter.Hours() > 24)
	}
	fmt.Println(errors.Is(err, limit.ErrLimited))
	// Output:
	// rate exceeded true
	// true
}

func ExampleRateLimiter_Reserve() {
	api, _ := limit.NewRateLimiter(limit.RateOptions{PerSecond: 10, Burst: 1})
	first, _ := api.Reserve()
	second, _ := api.Reserve()
	fmt.Println(first.Delay(), second.Delay() > 0)

	second.Cancel() // not needed after all
	fmt.Println(api.Stats().Queued)
	// Output:
	// 0s true
	// 0
}

// The token that was taken for a call which then found no permit goes back.
func ExampleAll() {
	rate, _ := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1, Burst: 10})
	slots, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	source := limit.All(rate, slots)

	_, err := source.Acquire(context.Background())
	fmt.Println(err)
	_, err = source.Acquire(context.Background())
	fmt.Println(err)
	fmt.Println(rate.Stats().Returned)
	// Output:
	// <nil>
	// limit: queue full, retry after 1s
	// 1
}

// Background work leaves a tenth of the permits, and at least one.
func ExampleContextWithPriority() {
	db, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2})
	ctx := limit.ContextWithPriority(context.Background(), limit.Background)

	_, err := db.Acquire(ctx)
	fmt.Println(err)
	_, err = db.Acquire(ctx)
	fmt.Println(err)
	_, err = db.Acquire(context.Background())
	fmt.Println(err)
	// Output:
	// <nil>
	// limit: nothing to spare for background work, retry after 1s
	// <nil>
}

// A Limiter of one's own, here one that asks something else first.
func ExampleNewPermit() {
	open := limiterFunc(func(context.Context) (limit.Permit, error) {
		return limit.NewPermit(func(o limit.Outcome) { fmt.Println("released:", o) }), nil
	})
	p, _ := limit.All(open, open).Acquire(context.Background())
	p.Release(limit.Dropped)
	// Output:
	// released: dropped
	// released: dropped
}
