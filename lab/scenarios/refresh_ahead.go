package scenarios

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	cache "github.com/Code-Hex/go-generics-cache"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var refreshAhead = scenario.Scenario{
	Name:  "refresh-ahead",
	Title: "Refresh ahead of the expiry",
	Asks:  "A popular list takes 5 s to compute and is good for 12 s. Who waits when it expires?",
	Published: &result.Published{
		Title: "highload-patterns: refresh-ahead caching",
		Setup: "A list of popular films is kept in the process and updated in the background. No figures.",
		FromSource: []string{
			"The list is recomputed as soon as it is ready, at most once per second, whether or not it is read. It is at most 5 s old.",
		},
	},
	Service: refreshService,
	Run:     runRefresh,
}

const (
	weirRefreshed   = "weir refresh-ahead"
	refreshArrivals = 50 // per second
)

// A popularList has the time to compute the list, and its TTL.
type popularList struct{ Compute, TTL time.Duration }

// refreshShare is the last share of the TTL, in which weir refreshes. It is early
// enough for a list that takes 5 s of the 12, even without jitter.
const refreshShare = 0.5

// earliest is the earliest start of the first refresh after a fill: the default
// jitter adds up to a tenth of the TTL.
func (p popularList) earliest() time.Duration {
	return time.Duration((1 - refreshShare - weir.DefaultRefreshJitter) * float64(p.TTL))
}

// most is the largest possible number of refreshes within d after a fill. Each is
// timed from the end of the previous one.
func (p popularList) most(d time.Duration) int64 {
	if d < p.earliest() {
		return 0
	}
	return 1 + int64((d-p.earliest())/(p.earliest()+p.Compute))
}

func runRefresh(ctx context.Context, l *scenario.Lab) error {
	list := scenario.Size(l, popularList{5 * time.Second, 12 * time.Second}, popularList{200 * time.Millisecond, time.Second})
	var took time.Duration // of the last fill
	for _, v := range []struct {
		variant string
		length  time.Duration
	}{
		// Nothing expires in this variant, so a short load is enough.
		{unprotected, scenario.Size(l, 8*time.Second, time.Second)},
		{ceiling, scenario.Size(l, 10*time.Second, time.Second)},
		{cacheAlone, scenario.Size(l, 40*time.Second, 2500*time.Millisecond)},
		{weirRefreshed, scenario.Size(l, 40*time.Second, 2500*time.Millisecond)},
	} {
		s, err := l.Serve(ctx, v.variant, list)
		if err != nil {
			return err
		}
		arrivals := load.Spec{URLs: []string{"/getPopularMovies"}, Mode: load.Open, Rate: refreshArrivals, Duration: v.length}
		began := time.Now()
		if _, err := l.Measure(ctx, s, scenario.Job{Load: arrivals}); err != nil {
			return err
		}
		took = time.Since(began)
		if err := s.Stop(); err != nil {
			return err
		}
	}
	judgeRefresh(l, list, took-list.Compute) // not counting the fill
	return nil
}

// judgeRefresh records the checks; weir's service ran for ran after the fill.
func judgeRefresh(l *scenario.Lab, list popularList, ran time.Duration) {
	nothing, kept, ahead := l.One(unprotected), l.One(cacheAlone), l.One(weirRefreshed)
	most := list.most(ran)
	l.Check("unprotected: each request is a computation", nothing.Source.Calls == nothing.Requests, "%d", nothing.Source.Calls)
	l.Check("cache alone: readers wait when the list expires", kept.Values[waitedForList] > 0, "%.0f of %d", kept.Values[waitedForList], kept.Requests)
	l.Check("weir: no request fails", ahead.Failures == 0, "%d of %d", ahead.Failures, ahead.Requests)
	l.Check("weir: no reader waits after the first fill", ahead.Values[waitedForList] == 0, "%.0f of %d", ahead.Values[waitedForList], ahead.Requests)
	l.Check("weir: the list is refreshed", ahead.Source.Calls >= 1, "%d times in %.0f s", ahead.Source.Calls, ahead.Seconds)
	l.Check("weir: it is computed about once per TTL", ahead.Source.Calls <= most, "%d times in %.0f s, and %d are possible", ahead.Source.Calls, ahead.Seconds, most)
	l.Check("weir: one computation at a time", ahead.Source.Most <= 1, "%d at once", ahead.Source.Most)
	l.CheckTime("weir: after the first fill the slowest reader is below 10 ms", ahead.Latency.Slowest < 10, "%.2f ms", ahead.Latency.Slowest)
	// The stale window is for readers that come back after a pause; with steady
	// arrivals the refresh is always in time.
	l.CheckTime("weir: no reader gets a list older than the TTL", ahead.Values[oldestList] < list.TTL.Seconds()+0.1, "%.2f s", ahead.Values[oldestList])

	l.Row(result.NewRow("slowest reader after the first fill, cache alone → weir", "ms", result.Lower).Here(kept.Latency.Slowest, ahead.Latency.Slowest).
		Under(l.One(ceiling).Latency.Slowest))
	l.Row(result.NewRow("readers that waited, cache alone → weir", "readers", result.Lower).Here(kept.Values[waitedForList], ahead.Values[waitedForList]))
	l.Row(result.NewRow("computations, cache alone → weir", "calls", result.Lower).Here(float64(kept.Source.Calls), float64(ahead.Source.Calls)))
	l.Row(result.NewRow("computations at once, cache alone → weir", "calls", result.Lower).Here(float64(kept.Source.Most), float64(ahead.Source.Most)))
	l.Note("The first fill happens before the measurement, for the variants that store anything. Without it the first readers wait in every variant.")
}

// Names of the counts of the service of refresh-ahead.
const (
	waitedForList = "readers that waited for a computation"
	oldestList    = "age of the oldest list sent, s"
)

// popularKey is the key of the only list.
const popularKey = "popular"

var filmTitles = []string{"one", "two", "three"}

// A films is the list, with the time when it was ready.
type films struct {
	Titles []string
	At     time.Time
}

// A filmsCache is the cache of a variant: get also reports whether the caller waited
// for the list, and fill computes the first one.
type filmsCache struct {
	get  func(ctx context.Context) (f films, hadToWait bool, err error)
	fill func(ctx context.Context) error
}

func refreshService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var list popularList
	if err := o.Decode(&list); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	compute := func(context.Context, string) (films, error) {
		defer meter.Begin()()
		time.Sleep(list.Compute)
		return films{filmTitles, time.Now()}, nil
	}
	c := filmsCache{
		get: func(ctx context.Context) (films, bool, error) {
			f, err := compute(ctx, popularKey)
			return f, true, err
		},
		fill: func(context.Context) error { return nil },
	}
	switch o.Variant {
	case ceiling:
		constant := films{filmTitles, time.Now()}
		c.get = func(context.Context) (films, bool, error) { return constant, false, nil }
	case cacheAlone:
		c = keepFilms(list.TTL, compute)
	case weirRefreshed:
		g, err := weir.New(compute, weir.Options{
			TTL:                  list.TTL,
			RefreshAhead:         refreshShare,
			StaleWhileRevalidate: 5 * list.TTL, // for readers that come back after a pause
		})
		if err != nil {
			return nil, err
		}
		c.fill = func(ctx context.Context) error {
			_, err := g.Refresh(ctx, popularKey)
			return err
		}
		c.get = func(ctx context.Context) (films, bool, error) {
			r := g.GetResult(ctx, popularKey)
			return r.Value, r.Joined || r.Source == weir.FromLoad, r.Err
		}
	}
	return serveFilms(meter, c), nil
}

// keepFilms keeps the list for a TTL, and does nothing else.
func keepFilms(ttl time.Duration, compute func(context.Context, string) (films, error)) filmsCache {
	lists := cache.New[string, films]()
	miss := func(ctx context.Context) (films, bool, error) {
		f, err := compute(ctx, popularKey)
		if err == nil {
			lists.Set(popularKey, f, cache.WithExpiration(ttl))
		}
		return f, true, err
	}
	return filmsCache{
		get: func(ctx context.Context) (films, bool, error) {
			if f, ok := lists.Get(popularKey); ok {
				return f, false, nil
			}
			return miss(ctx)
		},
		fill: func(ctx context.Context) error {
			_, _, err := miss(ctx)
			return err
		},
	}
}

// serveFilms serves the list, counts the readers that waited, and records how old the
// list was.
func serveFilms(meter *scenario.Meter, c filmsCache) *scenario.Service {
	var late, age atomic.Int64
	return &scenario.Service{
		Meter: meter,
		Reset: func(ctx context.Context) error {
			err := c.fill(ctx)
			late.Store(0)
			age.Store(0)
			return err
		},
		Values: func() map[string]float64 {
			return map[string]float64{waitedForList: float64(late.Load()), oldestList: time.Duration(age.Load()).Seconds()}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, hadToWait, err := c.get(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			if hadToWait {
				late.Add(1)
			}
			raiseTo(&age, int64(time.Since(f.At)))
			json.NewEncoder(w).Encode(f) //nolint:errcheck // the client is gone
		}),
	}
}

// raiseTo raises most to at least n.
func raiseTo(most *atomic.Int64, n int64) {
	for {
		old := most.Load()
		if n <= old || most.CompareAndSwap(old, n) {
			return
		}
	}
}
