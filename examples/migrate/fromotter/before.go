package fromotter

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Before keeps prices with otter.
type Before struct {
	prices *otter.Cache[string, int]
	query  otter.Loader[string, int]
}

// NewBefore opens the service.
func NewBefore(query func(ctx context.Context, sku string) (int, error)) (*Before, error) {
	c, err := otter.New(&otter.Options[string, int]{
		MaximumSize:       10_000,
		ExpiryCalculator:  otter.ExpiryWriting[string, int](time.Minute),
		RefreshCalculator: otter.RefreshWriting[string, int](45 * time.Second),
		Logger:            &otter.NoopLogger{},
	})
	return &Before{c, otter.LoaderFunc[string, int](query)}, err
}

// Price returns a price that is not older than a minute.
func (b *Before) Price(ctx context.Context, sku string) (int, error) {
	return b.prices.Get(ctx, sku, b.query)
}
