package howto_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

type Price struct {
	SKU   string
	Cents int
}

var down atomic.Bool // whether the database is down

func queryPrice(ctx context.Context, sku string) (Price, error) {
	if down.Load() {
		return Price{}, errors.New("the database is down")
	}
	if sku == "unicorn" {
		return Price{}, weir.ErrNotFound
	}
	return Price{SKU: sku, Cents: 100 * len(sku)}, nil
}

func Example_wrap() {
	ctx := context.Background()
	prices, err := weir.New(queryPrice, weir.Options{TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	defer prices.Close(ctx)

	for range 3 {
		p, err := prices.Get(ctx, "mill")
		fmt.Println(p.Cents, err)
	}
	fmt.Println("queries:", prices.Stats().Loads)
	// Output:
	// 400 <nil>
	// 400 <nil>
	// 400 <nil>
	// queries: 1
}

func Example_stale() {
	ctx := context.Background()
	prices := weir.Must(weir.New(queryPrice, weir.Options{
		TTL:          time.Minute,
		StaleIfError: time.Hour,
	}))
	defer prices.Close(ctx)

	prices.Get(ctx, "mill")
	prices.Expire(ctx, "mill") // as after a minute
	down.Store(true)
	defer down.Store(false)

	p, err := prices.Get(ctx, "mill")
	fmt.Println(p.Cents, err)

	r := prices.GetResult(ctx, "mill")
	fmt.Println(r.State, "because", r.Cause)
	// Output:
	// 400 <nil>
	// stale on error because the database is down
}

func Example_negative() {
	ctx := context.Background()
	prices := weir.Must(weir.New(queryPrice, weir.Options{
		TTL:         time.Minute,
		NegativeTTL: 10 * time.Second,
	}))
	defer prices.Close(ctx)

	for range 2 {
		_, err := prices.Get(ctx, "unicorn")
		fmt.Println(errors.Is(err, weir.ErrNotFound))
	}
	fmt.Println("queries:", prices.Stats().Loads)
	// Output:
	// true
	// true
	// queries: 1
}

func Example_limit() {
	ctx := context.Background()
	// Twenty queries at once, a hundred that wait, and none for more than a
	// second. The rest is refused at once, with a time to come back.
	database, err := limit.NewConcurrency(limit.ConcurrencyOptions{
		Limit:   20,
		Queue:   100,
		MaxWait: time.Second,
	})
	if err != nil {
		panic(err)
	}
	prices := weir.Must(weir.New(queryPrice, weir.Options{
		TTL:     time.Minute,
		Limiter: database,
	}))
	defer prices.Close(ctx)

	p, err := prices.Get(ctx, "mill")
	var refused *limit.Error
	if errors.As(err, &refused) {
		fmt.Println("come back in", refused.RetryAfter)
	}
	fmt.Println(p.Cents, err)
	// Output:
	// 400 <nil>
}

func Example_invalidate() {
	ctx := context.Background()
	prices := weir.Must(weir.New(queryPrice, weir.Options{TTL: time.Minute}))
	defer prices.Close(ctx)

	prices.Get(ctx, "mill")
	// The price was changed in the database.
	if err := prices.Invalidate(ctx, "mill"); err != nil {
		panic(err)
	}
	r := prices.GetResult(ctx, "mill")
	fmt.Println(r.State, r.Source)
	// Output:
	// loaded load
}
