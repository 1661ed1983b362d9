package fromsturdyc

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/weir-go/weir"
)

// NewAfter opens the service: its Get is the Price of Before.
func NewAfter(query func(ctx context.Context, sku string) (int, error)) (*weir.Guard[string, int], error) {
	return weir.New(query, weir.Options{
		MaxEntries:           10_000,
		TTL:                  20 * time.Second,
		TTLJitter:            0.5, // 10 to 20 s
		StaleWhileRevalidate: 40 * time.Second,
		StaleIfError:         time.Hour - 20*time.Second,
		NegativeTTL:          20 * time.Second,
		Classify: func(err error) weir.Class {
			if errors.Is(err, sql.ErrNoRows) {
				return weir.ClassNotFound
			}
			return weir.ClassTransient
		},
	})
}
