package promises

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
	xsync "golang.org/x/sync/singleflight"
	"resenje.org/singleflight"
)

type getFunc[K comparable] func(ctx context.Context, key K) (string, error)

// A config is what a story asks of a library.
type config[K comparable] struct {
	load    getFunc[K]
	refresh time.Duration // age from which a hit starts a refresh in the background, at least half of ttl
	noStore bool          // keep no value any longer than must be
}

// A subject is a library, ready for a story.
type subject[K comparable] struct {
	get  getFunc[K]
	drop func(key K) // forgets the value, and the load that is in flight
}

// A pair is a key of two fields. Printed without quotes, {"a b", "c"} and
// {"a", "b c"} are the same.
type pair struct{ A, B string }

// A library is one column of the table.
type library struct {
	name, use string // use: how its functions are called
	open      func(config[string]) subject[string]
	openPair  func(config[pair]) subject[pair]
	stores    bool // keeps values
	expires   bool // cannot coalesce without keeping the value for an instant
}

var libraries = []library{{
	name: "weir", use: "`Guard.Get`, `Guard.Invalidate`",
	open: openGuard[string], openPair: openGuard[pair], stores: true,
}, {
	name: "weir/flight", use: "`Group.Do`, `Group.Forget`",
	open: openFlight[string], openPair: openFlight[pair],
}, {
	name: "x/sync Do", use: "`Group.Do`; the load takes the context of the first caller",
	open: openDo,
}, {
	name: "x/sync DoChan", use: "`Group.DoChan` and a select on the caller's context; the load takes the first caller's without its cancellation",
	open: openDoChan,
}, {
	name: "resenje", use: "`Group.Do`, `Group.Forget`",
	open: openResenje[string], openPair: openResenje[pair],
}, {
	name: "otter", use: "loading `Get`, `Invalidate`; `ExpiryWriting`, `RefreshWriting`",
	open: openOtter[string], openPair: openOtter[pair], stores: true, expires: true,
}, {
	name: "sturdyc", use: "`GetOrFetch`, `Delete`; early refreshes; struct keys by its `PermutatedKey`",
	open: openSturdyc, openPair: openSturdycPair, stores: true, expires: true,
}}

const ttl = time.Hour

func openGuard[K comparable](c config[K]) subject[K] {
	o := weir.Options{TTL: ttl, StaleWhileRevalidate: time.Minute, StaleIfError: time.Hour}
	if c.refresh > 0 {
		o.RefreshAhead, o.RefreshJitter = float64(ttl-c.refresh)/float64(ttl), -1
	}
	if c.noStore {
		o = weir.Options{}
	}
	s := weir.Source[K, string]{Load: c.load}
	g := weir.Must(weir.NewFrom(s, o))
	return subject[K]{get: g.Get, drop: func(key K) {
		if err := g.Invalidate(context.Background(), key); err != nil {
			panic(err)
		}
	}}
}

func openFlight[K comparable](c config[K]) subject[K] {
	g := new(flight.Group[K, string])
	return subject[K]{get: func(ctx context.Context, key K) (string, error) {
		return g.Do(ctx, key, func(ctx context.Context) (string, error) { return c.load(ctx, key) })
	}, drop: g.Forget}
}

func openDo(c config[string]) subject[string] {
	g := new(xsync.Group)
	return subject[string]{get: func(ctx context.Context, key string) (string, error) {
		v, err, _ := g.Do(key, func() (any, error) { return c.load(ctx, key) })
		s, _ := v.(string)
		return s, err
	}, drop: g.Forget}
}

func openDoChan(c config[string]) subject[string] {
	g := new(xsync.Group)
	return subject[string]{get: func(ctx context.Context, key string) (string, error) {
		ch := g.DoChan(key, func() (any, error) { return c.load(context.WithoutCancel(ctx), key) })
		select {
		case r := <-ch:
			s, _ := r.Val.(string)
			return s, r.Err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, drop: g.Forget}
}

func openResenje[K comparable](c config[K]) subject[K] {
	g := new(singleflight.Group[K, string])
	return subject[K]{get: func(ctx context.Context, key K) (string, error) {
		v, _, err := g.Do(ctx, key, func(ctx context.Context) (string, error) { return c.load(ctx, key) })
		return v, err
	}, drop: g.Forget}
}

func openOtter[K comparable](c config[K]) subject[K] {
	life := lifetime(c)
	o := otter.Options[K, string]{
		ExpiryCalculator: otter.ExpiryWriting[K, string](life),
		Logger:           &otter.NoopLogger{},
	}
	if c.refresh > 0 {
		o.RefreshCalculator = otter.RefreshWriting[K, string](c.refresh)
	}
	cache := otter.Must(&o)
	loader := otter.LoaderFunc[K, string](c.load)
	return subject[K]{get: func(ctx context.Context, key K) (string, error) {
		return cache.Get(ctx, key, loader)
	}, drop: func(key K) { cache.Invalidate(key) }}
}

func openSturdyc(c config[string]) subject[string] {
	cache := newSturdyc(lifetime(c), c.refresh)
	return subject[string]{get: func(ctx context.Context, key string) (string, error) {
		return cache.GetOrFetch(ctx, key, func(ctx context.Context) (string, error) { return c.load(ctx, key) })
	}, drop: cache.Delete}
}

func openSturdycPair(c config[pair]) subject[pair] {
	cache := newSturdyc(ttl, c.refresh)
	return subject[pair]{get: func(ctx context.Context, key pair) (string, error) {
		return cache.GetOrFetch(ctx, cache.PermutatedKey("pair", key),
			func(ctx context.Context) (string, error) { return c.load(ctx, key) })
	}}
}

func newSturdyc(life, refresh time.Duration) *sturdyc.Client[string] {
	o := []sturdyc.Option{
		sturdyc.WithNoContinuousEvictions(),
		sturdyc.WithEvictionInterval(time.Hour), // it must have one even so
		sturdyc.WithLog(slog.New(slog.DiscardHandler)),
	}
	if refresh > 0 {
		o = append(o, sturdyc.WithEarlyRefreshes(refresh, refresh, life, time.Second))
	}
	return sturdyc.New[string](100_000, 10, life, 10, o...)
}

// lifetime is the time to live for libraries that must have one.
func lifetime[K comparable](c config[K]) time.Duration {
	if c.noStore {
		return time.Nanosecond
	}
	return ttl
}

// String is for the pair's value, so that a wrong one is seen.
func (p pair) String() string { return fmt.Sprintf("%q and %q", p.A, p.B) }
