package fromsingleflight

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// Before coalesces with singleflight.
type Before struct {
	Query func(ctx context.Context, sku string) (int, error)
	group singleflight.Group
}

// Price returns at the end of ctx, whatever the query does.
func (b *Before) Price(ctx context.Context, sku string) (int, error) {
	ch := b.group.DoChan(sku, func() (any, error) {
		// Others wait for this query, so it must not end with its first caller.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return b.Query(ctx, sku)
	})
	select {
	case r := <-ch:
		if r.Err != nil {
			return 0, r.Err
		}
		return r.Val.(int), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
