package libraries_test

import (
	"context"
	"testing"

	"resenje.org/singleflight"

	"github.com/weir-go/weir/bench/promises"
)

// Known to be broken.
var broken = []string{"no-zombie", "panic", "goexit", "no-false-success", "nested-load"}

func TestResenje(t *testing.T) {
	promises.Run(t, promises.Library{
		Name:     "resenje.org/singleflight",
		Open:     open[string],
		OpenPair: open[promises.Pair],
	}, broken...)
}

func open[K comparable](s promises.Setup[K]) promises.Subject[K] {
	g := new(singleflight.Group[K, string])
	return promises.Subject[K]{
		Get: func(ctx context.Context, key K) (string, error) {
			v, _, err := g.Do(ctx, key, func(ctx context.Context) (string, error) {
				return s.Load(ctx, key)
			})
			return v, err
		},
		Forget: g.Forget,
	}
}
