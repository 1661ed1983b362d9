package fromsingleflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/examples/migrate/internal/shop"
)

// pair runs a test in a bubble with the service before and after the migration.
func pair(t *testing.T, test func(t *testing.T, s *shop.Source, p shop.Prices)) {
	for name, open := range map[string]func(s *shop.Source) shop.Prices{
		"before": func(s *shop.Source) shop.Prices { return &Before{Query: s.Price} },
		"after":  func(s *shop.Source) shop.Prices { return &After{Query: s.Price} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s shop.Source
				test(t, &s, open(&s))
			})
		})
	}
}

func TestCrowdIsOneLoad(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		if got := shop.Crowd(t.Context(), p, 100, "mill", 400); got != 100 || s.Loads.Load() != 1 {
			t.Errorf("%d of 100 callers got the price in %d loads; want all of them in 1", got, s.Loads.Load())
		}
		p.Price(t.Context(), "mill")
		if s.Loads.Load() != 2 {
			t.Errorf("%d loads; want 2, because results are not stored", s.Loads.Load())
		}
	})
}

func TestErrorReachesTheCaller(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		s.Down.Store(true)
		if _, err := p.Price(t.Context(), "mill"); err != shop.ErrDown {
			t.Errorf("Price = %v; want %v", err, shop.ErrDown)
		}
	})
}

func TestFirstCallerLeaves(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		hurried, cancel := context.WithTimeout(t.Context(), shop.Slow/2)
		defer cancel()
		left := make(chan error, 1)
		go func() {
			_, err := p.Price(hurried, "mill")
			left <- err
		}()
		synctest.Wait()
		if got := shop.Crowd(t.Context(), p, 10, "mill", 400); got != 10 || s.Loads.Load() != 1 {
			t.Errorf("%d of 10 callers got the price in %d loads; want all of them in 1", got, s.Loads.Load())
		}
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first caller got %v; want its deadline", err)
		}
	})
}

// The difference: a query without waiting callers is canceled.
func TestLastCallerLeaves(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		hurried, cancel := context.WithTimeout(t.Context(), shop.Slow/2)
		defer cancel()
		p.Price(hurried, "mill")
		time.Sleep(shop.Slow)
		want := int64(0)
		if _, ok := p.(*After); ok {
			want = 1
		}
		if got := s.Canceled.Load(); got != want {
			t.Errorf("%d queries were canceled; want %d", got, want)
		}
	})
}
