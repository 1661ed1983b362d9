// Package shop has the slow source that both sides of each migration use, and a crowd of
// callers that request its prices.
package shop

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Slow is how long the source takes to respond.
const Slow = time.Second

// ErrDown is returned by loads while the source is Down.
var ErrDown = errors.New("shop: the database is down")

// A Source has prices. Its loads take [Slow], unless the context ends first.
type Source struct {
	Loads, Canceled atomic.Int64
	Down            atomic.Bool
}

// Price is the expensive call. The product "ghost" does not exist.
func (s *Source) Price(ctx context.Context, sku string) (int, error) {
	s.Loads.Add(1)
	select {
	case <-time.After(Slow):
	case <-ctx.Done():
		s.Canceled.Add(1)
		return 0, context.Cause(ctx)
	}
	switch {
	case s.Down.Load():
		return 0, ErrDown
	case sku == "ghost":
		return 0, sql.ErrNoRows
	}
	return 100 * len(sku), nil
}

// Prices returns the prices of several products in one load, without unknown products.
func (s *Source) Prices(ctx context.Context, skus []string) (map[string]int, error) {
	if _, err := s.Price(ctx, ""); err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, sku := range skus {
		if sku != "ghost" {
			found[sku] = 100 * len(sku)
		}
	}
	return found, nil
}

// Prices is the API of a service, both before and after its migration.
type Prices interface {
	Price(ctx context.Context, sku string) (int, error)
}

// Crowd runs n callers that request one price at once. It returns how many of them got
// want without an error.
func Crowd(ctx context.Context, p Prices, n int, sku string, want int) int {
	var got atomic.Int64
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			if v, err := p.Price(ctx, sku); v == want && err == nil {
				got.Add(1)
			}
		})
	}
	callers.Wait()
	return int(got.Load())
}
