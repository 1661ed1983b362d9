package fromgocache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/examples/migrate/internal/shop"
)

type prices interface {
	shop.Prices
	Forget(ctx context.Context, sku string) error
}

// pair runs a test in a bubble with the service before and after the migration.
func pair(t *testing.T, test func(t *testing.T, s *shop.Source, p prices)) {
	t.Run("before", func(t *testing.T) {
		// go-cache's cleaner goroutine never ends, so it must not start in the bubble.
		var s shop.Source
		b := NewBefore(s.Price)
		synctest.Test(t, func(t *testing.T) { test(t, &s, b) })
	})
	t.Run("after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s shop.Source
			a, err := NewAfter(s.Price)
			if err != nil {
				t.Fatal(err)
			}
			defer a.prices.Close(context.Background())
			test(t, &s, a)
		})
	})
}

func TestCrowdIsOneLoad(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p prices) {
		for range 2 {
			if got := shop.Crowd(t.Context(), p, 100, "mill", 400); got != 100 || s.Loads.Load() != 1 {
				t.Errorf("%d of 100 callers got the price in %d loads; want all of them in 1", got, s.Loads.Load())
			}
		}
	})
}

func TestExpiry(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p prices) {
		p.Price(t.Context(), "mill")
		s.Down.Store(true)
		time.Sleep(time.Minute + time.Nanosecond)
		if v, err := p.Price(t.Context(), "mill"); err != shop.ErrDown {
			t.Errorf("Price = %d, %v; want %v", v, err, shop.ErrDown)
		}
	})
}

func TestForget(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p prices) {
		p.Price(t.Context(), "mill")
		if err := p.Forget(t.Context(), "mill"); err != nil {
			t.Fatal(err)
		}
		p.Price(t.Context(), "mill")
		if s.Loads.Load() != 2 {
			t.Errorf("%d loads; want 2", s.Loads.Load())
		}
	})
}

// The difference: go-cache and singleflight store the result of a load that began before
// Forget, so the old price is served for another minute.
func TestForgetDuringALoad(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p prices) {
		go p.Price(t.Context(), "mill")
		synctest.Wait()
		p.Forget(t.Context(), "mill")
		time.Sleep(2 * shop.Slow)
		p.Price(t.Context(), "mill")
		want := int64(2)
		if _, ok := p.(*Before); ok {
			want = 1
		}
		if s.Loads.Load() != want {
			t.Errorf("%d loads; want %d", s.Loads.Load(), want)
		}
	})
}
