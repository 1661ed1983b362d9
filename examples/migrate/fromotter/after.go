package fromotter

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// NewAfter opens the service: its Get is the Price of Before.
func NewAfter(query func(ctx context.Context, sku string) (int, error)) (*weir.Guard[string, int], error) {
	return weir.New(query, weir.Options{
		MaxEntries:    10_000,
		TTL:           time.Minute,
		RefreshAhead:  0.25, // from 45 s
		RefreshJitter: -1,
	})
}
