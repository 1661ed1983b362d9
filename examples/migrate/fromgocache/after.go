package fromgocache

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// After keeps prices with a Guard.
type After struct {
	prices *weir.Guard[string, int]
}

// NewAfter opens the service.
func NewAfter(query func(ctx context.Context, sku string) (int, error)) (*After, error) {
	g, err := weir.New(query, weir.Options{TTL: time.Minute})
	return &After{g}, err
}

// Price returns a price that is not older than a minute.
func (a *After) Price(ctx context.Context, sku string) (int, error) {
	return a.prices.Get(ctx, sku)
}

// Forget is called after a price has changed.
func (a *After) Forget(ctx context.Context, sku string) error {
	return a.prices.Invalidate(ctx, sku)
}
