package bench

import (
	"context"
	"testing"
	"time"

	cache "github.com/Code-Hex/go-generics-cache"
	"github.com/Yiling-J/theine-go"
	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"
	xsync "golang.org/x/sync/singleflight"
	"resenje.org/singleflight"
)

// ttl is how long an entry lives in every library.
const ttl = time.Hour

// A record is the value that all libraries keep, by pointer.
type record struct {
	key string
	_   [48]byte
}

// A getFunc reads through a library; a loadFunc is what the library calls. Each has a
// single signature, so that every library is called in the same way.
type getFunc[K comparable] func(ctx context.Context, key K) (*record, error)

// A config is what a benchmark requires of every library.
type config[K comparable] struct {
	load    func(ctx context.Context, key K) (*record, error)
	entries int           // most entries it will hold
	stale   time.Duration // age at which a hit starts a refresh
}

// An instance is one library, ready to be called.
type instance[K comparable] struct {
	get   getFunc[K]
	keep  any    // must stay reachable to keep the entries
	close func() // nil: nothing to close
}

// A library opens instances under the name it has in the tables.
type library[K comparable] struct {
	name string
	open func(tb testing.TB, c config[K]) instance[K]
}

// The libraries.
var (
	libWeir       = library[string]{"weir", openWeir[string]}
	libFlight     = library[string]{"weir.flight", openFlight}
	libXSync      = library[string]{"xsync", openXSync}
	libResenje    = library[string]{"resenje", openResenje}
	libResenjeSet = library[string]{"resenje+otter", openResenjeSet[string]}
	libOtter      = library[string]{"otter", openOtter[string]}
	libSturdyc    = library[string]{"sturdyc", openSturdyc}
	libTheine     = library[string]{"theine", openTheine[string]}
	libMap        = library[string]{"mapcache", openMapCache}
	libMapChan    = library[string]{"mapcache-dochan", openMapCacheDoChan}
	libMapFirst   = library[string]{"mapcache-checkfirst", openMapCacheCheckFirst}
)

// run runs bench as a sub-benchmark for each of libs, in benchstat's key=value
// form.
func run[K comparable](b *testing.B, bench func(*testing.B, library[K]), libs ...library[K]) {
	for _, l := range libs {
		b.Run("lib="+l.name, func(b *testing.B) { bench(b, l) })
	}
}

// openFor opens l until the end of the benchmark.
func (l library[K]) openFor(tb testing.TB, c config[K]) getFunc[K] {
	i := l.open(tb, c)
	if i.close != nil {
		tb.Cleanup(i.close)
	}
	return i.get
}

func openXSync(_ testing.TB, c config[string]) instance[string] {
	var g xsync.Group
	return instance[string]{get: func(ctx context.Context, key string) (*record, error) {
		v, err, _ := g.Do(key, func() (any, error) { return c.load(ctx, key) })
		r, _ := v.(*record)
		return r, err
	}}
}

func openResenje(_ testing.TB, c config[string]) instance[string] {
	var g singleflight.Group[string, *record]
	return instance[string]{get: func(ctx context.Context, key string) (*record, error) {
		v, _, err := g.Do(ctx, key, func(ctx context.Context) (*record, error) { return c.load(ctx, key) })
		return v, err
	}}
}

// openResenjeSet is the least that a miss can cost if every caller has its own
// context: no lookup, one flight, one write.
func openResenjeSet[K comparable](tb testing.TB, c config[K]) instance[K] {
	var g singleflight.Group[K, *record]
	store := newOtter(tb, c)
	return instance[K]{keep: store, get: func(ctx context.Context, key K) (*record, error) {
		v, _, err := g.Do(ctx, key, func(ctx context.Context) (*record, error) {
			v, err := c.load(ctx, key)
			if err == nil {
				store.Set(key, v)
			}
			return v, err
		})
		return v, err
	}, close: func() { store.StopAllGoroutines() }}
}

func newOtter[K comparable](tb testing.TB, c config[K]) *otter.Cache[K, *record] {
	stale := c.stale
	if stale == 0 {
		stale = ttl * 8 / 10
	}
	o, err := otter.New(&otter.Options[K, *record]{
		MaximumSize:       2 * c.entries,
		ExpiryCalculator:  otter.ExpiryWriting[K, *record](ttl),
		RefreshCalculator: otter.RefreshWriting[K, *record](stale),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func openOtter[K comparable](tb testing.TB, c config[K]) instance[K] {
	o := newOtter(tb, c)
	var loader otter.Loader[K, *record] = otter.LoaderFunc[K, *record](c.load)
	return instance[K]{keep: o, get: func(ctx context.Context, key K) (*record, error) {
		return o.Get(ctx, key, loader)
	}, close: func() { o.StopAllGoroutines() }}
}

func openSturdyc(_ testing.TB, c config[string]) instance[string] {
	const shards, evictPercent = 64, 10
	stale := c.stale
	if stale == 0 {
		stale = ttl * 8 / 10
	}
	s := sturdyc.New[*record](2*c.entries+shards*64, shards, ttl, evictPercent,
		sturdyc.WithNoContinuousEvictions(),
		sturdyc.WithEarlyRefreshes(stale, stale, ttl, time.Second))
	return instance[string]{keep: s, get: func(ctx context.Context, key string) (*record, error) {
		return s.GetOrFetch(ctx, key, func(ctx context.Context) (*record, error) { return c.load(ctx, key) })
	}}
}

func openTheine[K comparable](tb testing.TB, c config[K]) instance[K] {
	t, err := theine.NewBuilder[K, *record](int64(2 * c.entries)).
		BuildWithLoader(func(ctx context.Context, key K) (theine.Loaded[*record], error) {
			v, err := c.load(ctx, key)
			return theine.Loaded[*record]{Value: v, Cost: 1, TTL: ttl}, err
		})
	if err != nil {
		tb.Fatal(err)
	}
	return instance[K]{get: t.Get, keep: t, close: t.Close}
}

func openMapCache(tb testing.TB, c config[string]) instance[string] {
	var g xsync.Group
	m, stop := newMapCache()
	return instance[string]{keep: m, close: stop, get: func(ctx context.Context, key string) (*record, error) {
		v, err, _ := g.Do(key, func() (any, error) {
			if v, ok := m.Get(key); ok {
				return v, nil
			}
			v, err := c.load(ctx, key)
			if err == nil {
				m.Set(key, v, cache.WithExpiration(ttl))
			}
			return v, err
		})
		r, _ := v.(*record)
		return r, err
	}}
}

// openMapCacheDoChan lets every caller leave at its own deadline, as weir and
// resenje do.
func openMapCacheDoChan(_ testing.TB, c config[string]) instance[string] {
	var g xsync.Group
	m, stop := newMapCache()
	return instance[string]{keep: m, close: stop, get: func(ctx context.Context, key string) (*record, error) {
		ch := g.DoChan(key, func() (any, error) {
			if v, ok := m.Get(key); ok {
				return v, nil
			}
			v, err := c.load(ctx, key)
			if err == nil {
				m.Set(key, v, cache.WithExpiration(ttl))
			}
			return v, err
		})
		select {
		case r := <-ch:
			v, _ := r.Val.(*record)
			return v, r.Err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
}

func openMapCacheCheckFirst(tb testing.TB, c config[string]) instance[string] {
	var g xsync.Group
	m, stop := newMapCache()
	return instance[string]{keep: m, close: stop, get: func(ctx context.Context, key string) (*record, error) {
		if v, ok := m.Get(key); ok {
			return v, nil
		}
		v, err, _ := g.Do(key, func() (any, error) {
			v, err := c.load(ctx, key)
			if err == nil {
				m.Set(key, v, cache.WithExpiration(ttl))
			}
			return v, err
		})
		r, _ := v.(*record)
		return r, err
	}}
}

func newMapCache() (m *cache.Cache[string, *record], stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	return cache.NewContext[string, *record](ctx), stop
}
