package fromsingleflight

import (
	"context"
	"time"

	"github.com/weir-go/weir/flight"
)

// After coalesces with flight.
type After struct {
	Query func(ctx context.Context, sku string) (int, error)
	group flight.Group[string, int]
}

// Price returns at the end of ctx, whatever the query does.
func (a *After) Price(ctx context.Context, sku string) (int, error) {
	return a.group.Do(ctx, sku, func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return a.Query(ctx, sku)
	})
}
