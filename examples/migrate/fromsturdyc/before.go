package fromsturdyc

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/viccon/sturdyc"
)

// Before keeps prices with sturdyc.
type Before struct {
	query  func(ctx context.Context, sku string) (int, error)
	prices *sturdyc.Client[int]
}

// NewBefore opens the service.
func NewBefore(query func(ctx context.Context, sku string) (int, error)) *Before {
	return &Before{query, sturdyc.New[int](10_000, 10, time.Hour, 10,
		sturdyc.WithNoContinuousEvictions(),
		sturdyc.WithEarlyRefreshes(10*time.Second, 20*time.Second, time.Minute, time.Second),
		sturdyc.WithMissingRecordStorage(),
	)}
}

// Price returns an old price if there is no newer one.
func (b *Before) Price(ctx context.Context, sku string) (int, error) {
	price, err := b.prices.GetOrFetch(ctx, sku, func(ctx context.Context) (int, error) {
		price, err := b.query(ctx, sku)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, sturdyc.ErrNotFound
		}
		return price, err
	})
	if errors.Is(err, sturdyc.ErrOnlyCachedRecords) {
		return price, nil
	}
	return price, err
}
