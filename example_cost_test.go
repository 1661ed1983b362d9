package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

func Example_limitByCost() {
	type prompt struct {
		text      string
		maxTokens int
	}
	complete := func(_ context.Context, p prompt) (answer string, tokens int, err error) { return "42", 30, nil }

	budget := limit.Must(limit.NewRateLimiter(limit.RateOptions{Name: "tokens", PerSecond: 1000, Burst: 10_000}))
	connections := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 20}))
	answers := weir.Must(weir.NewFrom(weir.Source[prompt, string]{
		// An estimate, before the call: a token has about four bytes.
		Cost: func(p prompt) int { return len(p.text)/4 + p.maxTokens },
		LoadEntry: func(ctx context.Context, p prompt, _ weir.Previous[string]) (weir.Entry[string], error) {
			answer, tokens, err := complete(ctx, p)
			return weir.Entry[string]{Value: answer, Cost: tokens}, err // what it has cost
		},
	}, weir.Options{TTL: time.Hour, Limiter: limit.All(budget, limit.PerCall(connections))}))

	ctx := context.Background()
	for range 3 {
		answers.Get(ctx, prompt{"What is six times seven?", 500})
	}
	cost := answers.Stats().Cost
	fmt.Println("spent", cost.Spent, "avoided", cost.Avoided())
	// Output: spent 30 avoided 60
}
