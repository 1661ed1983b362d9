package bulk_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// priced returns a Guard whose loads are estimated at 50 units of a bucket of 100 that
// fills by 1 per second, and return the cost and the error that say returns for a key.
func priced(t *testing.T, o weir.Options, say func(ctx context.Context, key string) (int, error)) (*weir.Guard[string, string], *limit.RateLimiter) {
	t.Helper()
	l := limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 1, Burst: 100, MaxWait: -1}))
	o.Limiter = l
	g := weir.Must(weir.NewFrom(weir.Source[string, string]{
		LoadEntry: func(ctx context.Context, key string, _ weir.Previous[string]) (weir.Entry[string], error) {
			cost, err := say(ctx, key)
			return weir.Entry[string]{Value: key, Cost: cost}, err
		},
		Cost: func(key string) int {
			if key == "huge" {
				return 1 << 30 // fits into 32 bits
			}
			return 50
		},
	}, o))
	return g, l
}

func tokens(t *testing.T, l *limit.RateLimiter, want float64) {
	t.Helper()
	if s := l.Stats(); s.Tokens != want {
		t.Errorf("the bucket has %v tokens; want %v", s.Tokens, want)
	}
}

// H34: a load takes what it should cost, and settles what it has cost.
func TestH34GuardSettlesLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costs := map[string]int{"cheap": 10, "as expected": 0, "free": -1, "costly": 90, "failed": 20}
		var l *limit.RateLimiter
		var g *weir.Guard[string, string]
		failed := errors.New("failed")
		g, l = priced(t, weir.Options{TTL: time.Minute}, func(_ context.Context, key string) (int, error) {
			if l.Stats().Tokens != 50 {
				t.Errorf("%s: the bucket has %v tokens during the load; want 50", key, l.Stats().Tokens)
			}
			if key == "failed" {
				return costs[key], failed
			}
			return costs[key], nil
		})
		spent := uint64(0)
		for key, left := range map[string]float64{"cheap": 90, "as expected": 50, "free": 100, "costly": 10, "failed": 80} {
			if _, err := g.Get(t.Context(), key); err != nil && !errors.Is(err, failed) {
				t.Fatalf("Get(%q) = %v", key, err)
			}
			tokens(t, l, left)
			spent += 100 - uint64(left)
			time.Sleep(100 * time.Second)
		}
		if s := g.Stats().Cost; s.Spent != spent || s.Avoided() != 0 || s.Refused != 0 {
			t.Errorf("Stats.Cost = %+v; want %d spent, and nothing else", s, spent)
		}
	})
}

// H34: hits and joiners take nothing, and what they would have cost is counted.
func TestH34GuardCountsAvoidedCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := priced(t, weir.Options{TTL: time.Minute, NegativeTTL: time.Minute}, func(_ context.Context, key string) (int, error) {
			time.Sleep(time.Second)
			if key == "none" {
				return 7, weir.ErrNotFound
			}
			return 10, nil
		})
		for range 5 {
			go func() { _, _ = g.Get(t.Context(), "k") }()
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		for range 3 {
			_, _ = g.Get(t.Context(), "k")
		}
		_ = g.GetResult(t.Context(), "k")
		_ = g.GetMany(t.Context(), []string{"k"})
		if s := g.Stats().Cost; s != (weir.CostStats{Spent: 10, Joins: 40, Hits: 50}) || s.Avoided() != 90 {
			t.Errorf("Stats.Cost = %+v; want 10 spent, 40 avoided by joins, and 50 by hits", s)
		}
		tokens(t, l, 92) // with the 2 that have come since
		time.Sleep(10 * time.Second)
		_, _ = g.Get(t.Context(), "none")
		_, _ = g.Get(t.Context(), "none")
		if s := g.Stats().Cost; s.Spent != 17 || s.Hits != 57 {
			t.Errorf("Stats.Cost = %+v; want 17 spent, and 57 avoided by hits", s)
		}
	})
}

// H34: a load that costs more than the whole limit fails at once and for good; what was
// refused is counted.
func TestH34GuardRefusesMoreThanTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := priced(t, weir.Options{}, nil)
		_, err := g.Get(t.Context(), "huge")
		var refused *limit.Error
		if !errors.As(err, &refused) || refused.Reason != limit.TooMany || g.Classify(err) != weir.ClassPermanent {
			t.Errorf("Get = %v, of class %v; want too many units, permanent", err, g.Classify(err))
		}
		if s := g.Stats().Cost; s.Refused != limit.MaxUnits || s.Spent != 0 {
			t.Errorf("Stats.Cost = %+v; want %d refused", s, limit.MaxUnits)
		}
	})
}

// H34: a load of several keys costs their sum, also if keys are added while it is queued;
// each entry has its own cost.
func TestH34GuardSumsBulkLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 1, Burst: 100, MaxWait: -1}))
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{
			LoadEntries: func(_ context.Context, keys []int, _ []weir.Previous[int]) (map[int]weir.Entry[int], error) {
				if s := l.Stats(); s.Tokens != 94 {
					t.Errorf("the bucket has %v tokens during the load; want 94, less 1, 2 and 3", s.Tokens)
				}
				m := map[int]weir.Entry[int]{}
				for _, key := range keys {
					m[key] = weir.Entry[int]{Cost: 10 * key}
				}
				return m, nil
			},
			Cost: func(key int) int { return key },
		}, weir.Options{TTL: time.Minute, Limiter: l, Batch: weir.Batching{MaxSize: 10, Linger: time.Second}}))
		for key := range 3 {
			go func() { _, _ = g.Get(t.Context(), key+1) }()
		}
		time.Sleep(2 * time.Second)
		tokens(t, l, 41) // 1 came during the second
		_, _ = g.Get(t.Context(), 3)
		if s := g.Stats().Cost; s != (weir.CostStats{Spent: 60, Hits: 30}) {
			t.Errorf("Stats.Cost = %+v; want 60 spent, and 30 avoided by a hit", s)
		}
	})
}

// H34: a load that panics has cost its estimate, and one that never ran nothing. A
// Cost that panics ends the load.
func TestH34GuardCostOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := priced(t, weir.Options{}, func(ctx context.Context, key string) (int, error) {
			if key == "slow" {
				time.Sleep(10 * time.Second)
				return 0, nil
			}
			panic("no")
		})
		_, err := g.Get(t.Context(), "k")
		if s := g.Stats().Cost; !errors.As(err, new(*weir.PanicError)) || s.Spent != 50 {
			t.Errorf("Get = %v, with cost %+v; want a panic that cost 50", err, s)
		}
		tokens(t, l, 50)
		go func() { _, _ = g.Get(t.Context(), "slow") }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = g.Get(ctx, "queued") }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		tokens(t, l, 0)
		if s := g.Stats().Cost; s.Spent != 50 {
			t.Errorf("Stats.Cost = %+v; want 50 spent", s)
		}
		time.Sleep(10 * time.Second)

		broken := weir.Must(weir.NewFrom(weir.Source[int, int]{
			Load: func(context.Context, int) (int, error) { return 1, nil },
			Cost: func(int) int { panic("no") },
		}, weir.Options{Limiter: l}))
		if _, err := broken.Get(t.Context(), 1); !errors.As(err, new(*weir.PanicError)) {
			t.Errorf("Get = %v; want the panic of Cost", err)
		}
	})
}

// H34: counting the cost of hits allocates nothing.
func TestH34GuardHitsAllocateNothing(t *testing.T) {
	g, _ := priced(t, weir.Options{TTL: time.Hour}, func(context.Context, string) (int, error) { return 3, nil })
	ctx := t.Context()
	_, _ = g.Get(ctx, "k")
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Get(ctx, "k") }); n != 0 {
		t.Errorf("a hit allocates %v times; want 0", n)
	}
	if s := g.Stats(); s.Cost.Hits != 3*s.Hits {
		t.Errorf("Stats = %+v; want a cost of 3 for each hit", s)
	}
}
