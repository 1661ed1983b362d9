package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"time"

	cache "github.com/Code-Hex/go-generics-cache"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/limit"
)

var expensiveCall = scenario.Scenario{
	Name:  "expensive-call",
	Title: "One expensive call, one level of protection after another",
	Asks:  "What do a cache, coalescing and a rate limit each add, and where does the limit belong?",
	Published: &result.Published{
		Title: "Protecting Expensive Calls In Go (2024)",
		URL:   "https://github.com/lezhnev74/go_expensive_call",
		Setup: "A call of 1 s behind an endpoint; hey sends 4 requests, 2 at a time. Level 0 has nothing, level 1 a cache of 10 s, level 2 coalescing around the cache, level 3 a token bucket of one request per second before both.",
		Inconsistencies: []string{
			"The text names the response of level 3 \"419 Too Many Requests\"; its code and its output have 429.",
		},
		Flaws: []string{
			"The limit of level 3 is in front of the cache: it rejects requests that the cache could have answered. Behind the coalescer it counts calls, and no request needs to be rejected.",
		},
	},
	Needs:   []string{"hey"},
	Service: expensiveService,
	Run:     runExpensive,
}

// The levels. The first four build on each other, as published.
const (
	level0       = "0 unprotected"
	level1       = "1 cache"
	level2       = "2 weir: cache and coalescing"
	level3before = "3 weir, limit in front"
	level3behind = "3 weir, limit behind the coalescer"
)

// ttl is how long the levels with a cache keep the result.
const ttl = 10 * time.Second

func runExpensive(ctx context.Context, l *scenario.Lab) error {
	call := scenario.Size(l, time.Second, 100*time.Millisecond)
	want := []struct {
		level         string
		calls         int64
		good, refused int64
		seconds       float64 // published; 0: none
	}{
		{level0, 4, 4, 0, 2.0057},
		{level1, 2, 4, 0, 1.0036},
		{level2, 1, 4, 0, 1.0037},
		{level3before, 1, 2, 2, 0},
		{level3behind, 1, 4, 0, 0},
	}
	for _, w := range want {
		s, err := l.Serve(ctx, w.level, call)
		if err != nil {
			return err
		}
		m, err := l.Hey(ctx, s, 4, 2, scenario.Job{Load: load.Spec{URLs: []string{"/calculate"}}})
		if err != nil {
			return err
		}
		l.Check(w.level+fmt.Sprintf(": %d × 200, %d × 429", w.good, w.refused),
			m.Statuses[http.StatusOK] == w.good && m.Statuses[http.StatusTooManyRequests] == w.refused, "%v", m.Statuses)
		l.Check(fmt.Sprintf("%s: exactly the expected number of calls, %d", w.level, w.calls), m.Source.Calls == w.calls, "%d", m.Source.Calls)
		if w.seconds > 0 {
			l.CheckTime(fmt.Sprintf("%s: %.1f s, as published", w.level, w.seconds), m.Seconds < w.seconds+0.1, "%.3f s", m.Seconds)
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	before, one, two := l.One(level0), l.One(level1), l.One(level2)
	l.Row(result.NewRow("time for 4 requests, level 0 → 1", "s", result.Lower).Published(2.0057, 1.0036).Here(before.Seconds, one.Seconds))
	l.Row(result.NewRow("time for 4 requests, level 0 → 2", "s", result.Lower).Published(2.0057, 1.0037).Here(before.Seconds, two.Seconds))
	l.Row(result.NewRow("calls, level 0 → 1", "calls", result.Lower).Published(4, 2).Here(float64(before.Source.Calls), float64(one.Source.Calls)))
	l.Row(result.NewRow("calls, level 0 → 2", "calls", result.Lower).Published(4, 1).Here(float64(before.Source.Calls), float64(two.Source.Calls)))
	ahead, behind := l.One(level3before), l.One(level3behind)
	l.Row(result.NewRow("answers of 4, limit in front → behind the coalescer", "answers", result.Higher).
		Here(float64(ahead.Good), float64(behind.Good)))
	l.Note("A limit in front of the cache counts requests: with one request per second, two of the four are rejected although the response was cached. " +
		"Behind the coalescer it counts calls, which is what it protects: four requests are one call, one call is within the limit, and all four are answered.")
	return nil
}

func expensiveService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var call time.Duration
	if err := o.Decode(&call); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	expensive := func(context.Context, string) (string, error) {
		defer meter.Begin()()
		time.Sleep(call)
		return "done at " + time.Now().Format(time.RFC3339Nano), nil
	}
	get := expensive
	admit := func() bool { return true }
	switch o.Variant {
	case level1:
		answers := cache.New[string, string]() // as published
		get = func(ctx context.Context, key string) (string, error) {
			if v, ok := answers.Get(key); ok {
				return v, nil
			}
			v, err := expensive(ctx, key)
			if err == nil {
				answers.Set(key, v, cache.WithExpiration(ttl))
			}
			return v, err
		}
	case level2, level3before, level3behind:
		options := weir.Options{TTL: ttl}
		if o.Variant == level3behind {
			perSecond, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: float64(time.Second) / float64(call), Burst: 1})
			if err != nil {
				return nil, err
			}
			options.Limiter = perSecond
		}
		g, err := weir.New(expensive, options)
		if err != nil {
			return nil, err
		}
		get = g.Get
		if o.Variant == level3before {
			admit = rate.NewLimiter(rate.Every(call), 1).Allow // one in the time of a call, as published
		}
	}
	return &scenario.Service{Meter: meter, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admit() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		answer, err := get(r.Context(), "expensive")
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%q\n", answer)
	})}, nil
}
