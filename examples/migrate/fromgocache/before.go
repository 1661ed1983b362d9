package fromgocache

import (
	"context"
	"time"

	"github.com/patrickmn/go-cache"
	"golang.org/x/sync/singleflight"
)

// Before keeps prices with go-cache, and coalesces with singleflight.
type Before struct {
	query  func(ctx context.Context, sku string) (int, error)
	prices *cache.Cache
	group  singleflight.Group
}

// NewBefore opens the service.
func NewBefore(query func(ctx context.Context, sku string) (int, error)) *Before {
	return &Before{query: query, prices: cache.New(time.Minute, 10*time.Minute)}
}

// Price returns a price that is not older than a minute.
func (b *Before) Price(ctx context.Context, sku string) (int, error) {
	if v, ok := b.prices.Get(sku); ok {
		return v.(int), nil
	}
	v, err, _ := b.group.Do(sku, func() (any, error) {
		price, err := b.query(context.WithoutCancel(ctx), sku)
		if err == nil {
			b.prices.SetDefault(sku, price)
		}
		return price, err
	})
	if err != nil {
		return 0, err
	}
	return v.(int), nil
}

// Forget is called after a price has changed.
func (b *Before) Forget(_ context.Context, sku string) error {
	b.prices.Delete(sku)
	return nil
}
