package libraries

import (
	"context"
	"log/slog"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/bench/promises"
	"github.com/weir-go/weir/flight"
	xsync "golang.org/x/sync/singleflight"
	"resenje.org/singleflight"
)

type (
	config[K comparable]  = promises.Setup[K]
	subject[K comparable] = promises.Subject[K]
	pair                  = promises.Pair
)

// A library is one column of the table.
type library struct {
	promises.Library
	use string // how its functions are called
}

var libraries = []library{{
	use: "`Guard.Get`, `Guard.Invalidate`",
	Library: promises.Library{
		Name: "weir",
		Open: openGuard[string], OpenPair: openGuard[pair], Stores: true,
	},
}, {
	use: "`Group.Do`, `Group.Forget`",
	Library: promises.Library{
		Name: "weir/flight",
		Open: openFlight[string], OpenPair: openFlight[pair],
	},
}, {
	use: "`Group.Do`; the load takes the context of the first caller",
	Library: promises.Library{
		Name: "x/sync Do",
		Open: openDo,
	},
}, {
	use: "`Group.DoChan` and a select on the caller's context; the load takes the first caller's without its cancellation",
	Library: promises.Library{
		Name: "x/sync DoChan",
		Open: openDoChan,
	},
}, {
	use: "`Group.Do`, `Group.Forget`",
	Library: promises.Library{
		Name: "resenje",
		Open: openResenje[string], OpenPair: openResenje[pair],
	},
}, {
	use: "loading `Get`, `Invalidate`; `ExpiryWriting`, `RefreshWriting`",
	Library: promises.Library{
		Name: "otter",
		Open: openOtter[string], OpenPair: openOtter[pair], Stores: true, Expires: true,
	},
}, {
	use: "`GetOrFetch`, `Delete`; early refreshes; struct keys by its `PermutatedKey`",
	Library: promises.Library{
		Name: "sturdyc",
		Open: openSturdyc, OpenPair: openSturdycPair, Stores: true, Expires: true,
	},
}}

const ttl = promises.TTL

func openGuard[K comparable](c config[K]) subject[K] {
	o := weir.Options{TTL: ttl, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour}
	if c.RefreshFrom > 0 {
		o.RefreshAhead, o.RefreshJitter = float64(ttl-c.RefreshFrom)/float64(ttl), -1
	}
	if c.NoStore {
		o = weir.Options{}
	}
	s := weir.Source[K, string]{Load: c.Load}
	g := weir.Must(weir.NewFrom(s, o))
	return subject[K]{Get: g.Get, Forget: func(key K) {
		if err := g.Invalidate(context.Background(), key); err != nil {
			panic(err)
		}
	}}
}

func openFlight[K comparable](c config[K]) subject[K] {
	g := new(flight.Group[K, string])
	return subject[K]{Get: func(ctx context.Context, key K) (string, error) {
		return g.Do(ctx, key, func(ctx context.Context) (string, error) { return c.Load(ctx, key) })
	}, Forget: g.Forget}
}

func openDo(c config[string]) subject[string] {
	g := new(xsync.Group)
	return subject[string]{Get: func(ctx context.Context, key string) (string, error) {
		v, err, _ := g.Do(key, func() (any, error) { return c.Load(ctx, key) })
		s, _ := v.(string)
		return s, err
	}, Forget: g.Forget}
}

func openDoChan(c config[string]) subject[string] {
	g := new(xsync.Group)
	return subject[string]{Get: func(ctx context.Context, key string) (string, error) {
		ch := g.DoChan(key, func() (any, error) { return c.Load(context.WithoutCancel(ctx), key) })
		select {
		case r := <-ch:
			s, _ := r.Val.(string)
			return s, r.Err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, Forget: g.Forget}
}

func openResenje[K comparable](c config[K]) subject[K] {
	g := new(singleflight.Group[K, string])
	return subject[K]{Get: func(ctx context.Context, key K) (string, error) {
		v, _, err := g.Do(ctx, key, func(ctx context.Context) (string, error) { return c.Load(ctx, key) })
		return v, err
	}, Forget: g.Forget}
}

func openOtter[K comparable](c config[K]) subject[K] {
	life := lifetime(c)
	o := otter.Options[K, string]{
		ExpiryCalculator: otter.ExpiryWriting[K, string](life),
		Logger:           &otter.NoopLogger{},
	}
	if c.RefreshFrom > 0 {
		o.RefreshCalculator = otter.RefreshWriting[K, string](c.RefreshFrom)
	}
	cache := otter.Must(&o)
	loader := otter.LoaderFunc[K, string](c.Load)
	return subject[K]{Get: func(ctx context.Context, key K) (string, error) {
		return cache.Get(ctx, key, loader)
	}, Forget: func(key K) { cache.Invalidate(key) }}
}

func openSturdyc(c config[string]) subject[string] {
	cache := newSturdyc(lifetime(c), c.RefreshFrom)
	return subject[string]{Get: func(ctx context.Context, key string) (string, error) {
		return cache.GetOrFetch(ctx, key, func(ctx context.Context) (string, error) { return c.Load(ctx, key) })
	}, Forget: cache.Delete}
}

func openSturdycPair(c config[pair]) subject[pair] {
	cache := newSturdyc(ttl, c.RefreshFrom)
	return subject[pair]{Get: func(ctx context.Context, key pair) (string, error) {
		return cache.GetOrFetch(ctx, cache.PermutatedKey("pair", key),
			func(ctx context.Context) (string, error) { return c.Load(ctx, key) })
	}}
}

func newSturdyc(life, refresh time.Duration) *sturdyc.Client[string] {
	o := []sturdyc.Option{
		sturdyc.WithNoContinuousEvictions(),
		sturdyc.WithEvictionInterval(time.Hour), // required even without evictions
		sturdyc.WithLog(slog.New(slog.DiscardHandler)),
	}
	if refresh > 0 {
		o = append(o, sturdyc.WithEarlyRefreshes(refresh, refresh, life, time.Second))
	}
	return sturdyc.New[string](100_000, 10, life, 10, o...)
}

// lifetime returns the time to live for libraries that require one.
func lifetime[K comparable](c config[K]) time.Duration {
	if c.NoStore {
		return time.Nanosecond
	}
	return ttl
}
