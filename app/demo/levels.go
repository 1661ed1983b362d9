package demo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/limit"
)

// Settings of the levels.
const (
	// TTL is short, so that a run of a few seconds sees values expire, and long enough for
	// the source to renew all of them.
	TTL = 2 * time.Second

	// RefreshAhead is the last share of the TTL, in which a hit starts a refresh.
	RefreshAhead = 0.2

	// StaleWindow is how long after the TTL a value is served while its
	// refresh runs.
	StaleWindow = 2 * time.Second

	// Queue is how many loads may wait for admission, and MaxWait how long: every client of
	// the demo should get its response.
	Queue   = 256
	MaxWait = 10 * time.Second
)

// A level is one step of protection, with all the steps before it.
type level struct {
	name string
	adds string // what it adds to the previous level

	// guarded is nil where the service calls the source for every request.
	guarded func() (weir.Options, error)
	// front is the gateway before the service, nil without one.
	front *fronted
	// kind is the kind of its unit if there is neither.
	kind string
}

// levels returns the demo's levels, each of which builds on the previous one.
func levels() []level {
	coalescing := weir.Options{} // without a TTL nothing is kept

	cache := coalescing
	cache.TTL = TTL

	ahead := cache
	ahead.RefreshAhead = RefreshAhead
	ahead.StaleWhileRevalidate = StaleWindow

	return []level{
		{name: "unprotected", adds: "every request calls the source", kind: kindGuard},
		{name: "coalescing", adds: "requests for the same key at the same time share one call", guarded: fixed(coalescing)},
		{name: "+ cache", adds: fmt.Sprintf("a response is kept for %v", TTL), guarded: fixed(cache)},
		{name: "+ refresh-ahead", adds: fmt.Sprintf("in the last %d %% of that time it is refreshed in the background, so that no client waits",
			int(RefreshAhead*100)), guarded: fixed(ahead)},
		{name: "+ admission", adds: fmt.Sprintf("as many concurrent calls as the source can take, adapted to their latency, starting at %d, one for each CPU; the rest wait",
			runtime.GOMAXPROCS(0)), guarded: func() (weir.Options, error) {
			o := ahead
			l, err := limit.NewAdaptive(limit.AdaptiveOptions{
				Initial: runtime.GOMAXPROCS(0),
				Queue:   Queue,
				MaxWait: MaxWait,
			})
			o.Limiter = l
			return o, err
		}},
	}
}

func fixed(o weir.Options) func() (weir.Options, error) {
	return func() (weir.Options, error) { return o, nil }
}

// An answerer returns the response for a key, with or without a call to the source.
type answerer func(ctx context.Context, key int) ([]byte, error)

// start makes the level's own Guard around src, named unit, that tracks its hot keys. The
// function that it returns closes the Guard and waits for running loads.
func (l level) start(src source.Source, m *source.Meter, unit string, hotKeys int) (answerer, func(context.Context) error, console.Source, error) {
	load := func(ctx context.Context, key int) ([]byte, error) { return src.Load(ctx, key, m) }
	if l.guarded == nil {
		b := &bare{unit: unit, kind: l.kind, load: load}
		return b.get, func(context.Context) error { return nil }, b, nil
	}
	o, err := l.guarded()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("level %s: %w", l.name, err)
	}
	o.Name, o.HotKeys = unit, hotKeys
	g, err := weir.New(load, o)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("level %s: %w", l.name, err)
	}
	s, err := console.Guards(g)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("level %s: %w", l.name, errors.Join(err, g.Close(context.Background())))
	}
	return g.Get, g.Close, s, nil
}
