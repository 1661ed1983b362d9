package fromsturdyc

import (
	"context"

	"github.com/viccon/sturdyc"

	"github.com/weir-go/weir"
)

// A bulkQuery returns the prices of several products, without those that do not exist.
type bulkQuery func(ctx context.Context, skus []string) (map[string]int, error)

func bulkBefore(ctx context.Context, c *sturdyc.Client[int], query bulkQuery, skus []string) (map[string]int, error) {
	key := c.BatchKeyFn("price")
	return c.GetOrFetchBatch(ctx, skus, key, sturdyc.BatchFetchFn[int](query))
}

// bulkAfter returns the prices of several products. Create g with
// weir.NewFrom(weir.Source[string, int]{LoadMany: query}, options).
func bulkAfter(ctx context.Context, g *weir.Guard[string, int], skus []string) (map[string]int, error) {
	prices := map[string]int{}
	for sku, r := range g.GetMany(ctx, skus) {
		switch {
		case r.Err == nil:
			prices[sku] = r.Value
		case g.Classify(r.Err) != weir.ClassNotFound:
			return nil, r.Err
		}
	}
	return prices, nil
}
