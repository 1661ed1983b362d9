package bench

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
)

func openWeir[K comparable](tb testing.TB, c config[K]) instance[K] {
	g, closed := newGuard(tb, c, weirOptions(c))
	return instance[K]{get: g.Get, keep: g, close: closed}
}

func weirOptions[K comparable](c config[K]) weir.Options {
	o := weir.Options{
		TTL:                  ttl,
		RefreshAhead:         0.2,
		StaleWhileRevalidate: time.Minute,
		StaleIfError:         time.Hour,
		MaxEntries:           2 * c.entries,
	}
	if c.stale > 0 { // a value is stale past its TTL
		o.TTL, o.RefreshAhead, o.StaleWhileRevalidate = c.stale, 0, ttl
	}
	return o
}

func newGuard[K comparable](tb testing.TB, c config[K], o weir.Options) (g *weir.Guard[K, *record], closed func()) {
	g, err := weir.New(c.load, o)
	if err != nil {
		tb.Fatal(err)
	}
	return g, func() {
		if err := g.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	}
}

func openFlight(_ testing.TB, c config[string]) instance[string] {
	var g flight.Group[string, *record]
	return instance[string]{get: func(ctx context.Context, key string) (*record, error) {
		return g.Do(ctx, key, func(ctx context.Context) (*record, error) { return c.load(ctx, key) })
	}}
}
