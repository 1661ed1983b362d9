package fromotter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
			b, err := NewBefore(s.Price)
			if err != nil {
				t.Fatal(err)
			}
			defer b.prices.StopAllGoroutines()
			test(t, &s, b)
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

func TestRefreshBeforeTheEnd(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		p.Price(t.Context(), "mill")
		for _, at := range []struct {
			after time.Duration
			loads int64
		}{{40 * time.Second, 1}, {10 * time.Second, 2}} {
			time.Sleep(at.after)
			began := time.Now()
			if v, err := p.Price(t.Context(), "mill"); v != 400 || err != nil || time.Since(began) > 0 {
				t.Errorf("Price = %d, %v after %v; want 400 at once", v, err, time.Since(began))
			}
			synctest.Wait()
			if s.Loads.Load() != at.loads {
				t.Errorf("%d loads; want %d", s.Loads.Load(), at.loads)
			}
		}
		time.Sleep(shop.Slow)
	})
}

func TestExpiry(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		p.Price(t.Context(), "mill")
		s.Down.Store(true)
		time.Sleep(61 * time.Second)
		if v, err := p.Price(t.Context(), "mill"); err != shop.ErrDown {
			t.Errorf("Price = %d, %v; want %v", v, err, shop.ErrDown)
		}
	})
}

// The difference: otter's load uses the context of its first caller. If that ends, the
// next caller loads again.
func TestFirstCallerLeaves(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		hurried, cancel := context.WithTimeout(t.Context(), shop.Slow/2)
		defer cancel()
		go p.Price(hurried, "mill")
		synctest.Wait()
		want := int64(1)
		if _, ok := p.(*Before); ok {
			want = 2
		}
		if got := shop.Crowd(t.Context(), p, 10, "mill", 400); got != 10 || s.Loads.Load() != want {
			t.Errorf("%d of 10 callers got the price in %d loads; want all of them in %d", got, s.Loads.Load(), want)
		}
	})
}

func TestWaiterLeaves(t *testing.T) {
	pair(t, func(t *testing.T, s *shop.Source, p shop.Prices) {
		go p.Price(t.Context(), "mill")
		synctest.Wait()
		hurried, cancel := context.WithTimeout(t.Context(), shop.Slow/2)
		defer cancel()
		began := time.Now()
		p.Price(hurried, "mill")
		if took := time.Since(began); took != shop.Slow/2 {
			t.Errorf("the caller waited for %v; want %v", took, shop.Slow/2)
		}
		time.Sleep(shop.Slow)
	})
}

// The difference: with otter, a panic of the query panics in the caller. A Guard returns
// it as an error.
func TestPanic(t *testing.T) {
	bug := func(context.Context, string) (int, error) { panic("a bug") }
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBefore(bug)
		if err != nil {
			t.Fatal(err)
		}
		defer b.prices.StopAllGoroutines()
		defer func() {
			if recover() == nil {
				t.Error("otter's caller did not panic")
			}
		}()
		b.Price(t.Context(), "mill")
	})
	synctest.Test(t, func(t *testing.T) {
		g, err := NewAfter(bug)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		var p *weir.PanicError
		if _, err := g.Get(t.Context(), "mill"); !errors.As(err, &p) || p.Value != "a bug" {
			t.Errorf("Get = %v; want a *PanicError", err)
		}
	})
}
