package fromsturdyc

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/viccon/sturdyc"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/examples/migrate/internal/shop"
)

// A guarded wraps the Guard of NewAfter with the Price method of Before.
type guarded struct{ *weir.Guard[string, int] }

func (g guarded) Price(ctx context.Context, sku string) (int, error) { return g.Get(ctx, sku) }

// pair runs a test in a bubble with the service before and after the migration.
func pair(t *testing.T, test func(t *testing.T, s *shop.Source, p shop.Prices)) {
	t.Run("before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s shop.Source
			test(t, &s, NewBefore(s.Price))
		})
	})
	t.Run("after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s shop.Source
			g, err := NewAfter(s.Price)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close(context.Background())
			test(t, &s, guarded{g})
		})
	})
}

func TestCrowdIsOneLoad(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		for range 2 {
			if got := shop.Crowd(t.Context(), p, 100, "mill", 400); got != 100 || s.Loads.Load() != 1 {
				t.Errorf("%d of 100 callers got the price in %d loads; want all of them in 1", got, s.Loads.Load())
			}
		}
	})
}

// Between the TTL and the end of the stale window, callers do not wait.
func TestRefreshInTheBackground(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		p.Price(t.Context(), "mill")
		time.Sleep(25 * time.Second)
		began := time.Now()
		if v, err := p.Price(t.Context(), "mill"); v != 400 || err != nil || time.Since(began) > 0 {
			t.Errorf("Price = %d, %v after %v; want 400 at once", v, err, time.Since(began))
		}
		time.Sleep(2 * shop.Slow)
		if s.Loads.Load() != 2 {
			t.Errorf("%d loads; want 2", s.Loads.Load())
		}
	})
}

func TestSourceIsDown(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		p.Price(t.Context(), "mill")
		s.Down.Store(true)
		time.Sleep(30 * time.Minute)
		if v, err := p.Price(t.Context(), "mill"); v != 400 || err != nil {
			t.Errorf("Price = %d, %v after half an hour; want the old price", v, err)
		}
		time.Sleep(31 * time.Minute)
		if _, err := p.Price(t.Context(), "mill"); !errors.Is(err, shop.ErrDown) {
			t.Errorf("Price = %v after an hour; want %v", err, shop.ErrDown)
		}
	})
}

func TestMissingProductsAreRemembered(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		for range 3 {
			if v, err := p.Price(t.Context(), "ghost"); err == nil {
				t.Errorf("Price = %d; want an error", v)
			}
		}
		if s.Loads.Load() != 1 {
			t.Errorf("%d loads; want 1", s.Loads.Load())
		}
	})
}

// The difference: sturdyc's load uses the context of the first caller.
func TestFirstCallerLeaves(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		hurried, cancel := context.WithTimeout(t.Context(), shop.Slow/2)
		defer cancel()
		go p.Price(hurried, "mill")
		synctest.Wait()
		want := 10
		if _, ok := p.(*Before); ok {
			want = 0
		}
		if got := shop.Crowd(t.Context(), p, 10, "mill", 400); got != want {
			t.Errorf("%d of 10 callers got the price; want %d", got, want)
		}
	})
}

func TestBulk(t *testing.T) {
	type open = func(query bulkQuery) func(ctx context.Context, skus []string) (map[string]int, error)
	for name, open := range map[string]open{
		"before": func(query bulkQuery) func(ctx context.Context, skus []string) (map[string]int, error) {
			c := sturdyc.New[int](100, 1, time.Hour, 10, sturdyc.WithNoContinuousEvictions(), sturdyc.WithMissingRecordStorage())
			return func(ctx context.Context, skus []string) (map[string]int, error) {
				return bulkBefore(ctx, c, query, skus)
			}
		},
		"after": func(query bulkQuery) func(ctx context.Context, skus []string) (map[string]int, error) {
			g := weir.Must(weir.NewFrom(weir.Source[string, int]{LoadMany: query}, weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}))
			return func(ctx context.Context, skus []string) (map[string]int, error) {
				return bulkAfter(ctx, g, skus)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s shop.Source
				prices := open(s.Prices)
				for i, skus := range [][]string{{"pen", "ghost"}, {"mill", "pen", "ghost"}, {"mill", "pen", "ghost"}} {
					got, err := prices(t.Context(), skus)
					want := map[string]int{"mill": 400, "pen": 300}
					if i == 0 {
						delete(want, "mill")
					}
					if !maps.Equal(got, want) || err != nil {
						t.Errorf("the prices of %v = %v, %v; want %v", skus, got, err, want)
					}
				}
				if s.Loads.Load() != 2 {
					t.Errorf("%d loads; want 2", s.Loads.Load())
				}
				s.Down.Store(true)
				if _, err := prices(t.Context(), []string{"fork"}); !errors.Is(err, shop.ErrDown) {
					t.Errorf("the error while the source is down is %v; want %v", err, shop.ErrDown)
				}
			})
		})
	}
}
