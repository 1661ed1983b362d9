package loads_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A nest is several Guards in front of one source, whose loads call each other,
// with the number of functions that work at once.
type nest struct {
	*testing.T
	l    limit.Limiter
	pool *limit.Concurrency

	working, most atomic.Int64
}

func newNest(t *testing.T, o limit.ConcurrencyOptions) *nest {
	t.Helper()
	pool, err := limit.NewConcurrency(o)
	if err != nil {
		t.Fatal(err)
	}
	return &nest{T: t, l: pool, pool: pool}
}

// work takes d, and counts as work. A function does no work while it waits for
// another.
func (n *nest) work(ctx context.Context, d time.Duration) {
	now := n.working.Add(1)
	for old := n.most.Load(); now > old && !n.most.CompareAndSwap(old, now); old = n.most.Load() {
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	n.working.Add(-1)
}

// guard makes a Guard under the nest's limiter.
func (n *nest) guard(load func(context.Context, string) (int, error), change func(*weir.Options)) *weir.Guard[string, int] {
	n.Helper()
	o := weir.Options{Limiter: n.l, LoadTimeout: -1}
	if change != nil {
		change(&o)
	}
	g, err := weir.New(load, o)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { g.Close(context.Background()) })
	return g
}

// done checks that no permit is out, and that never more than limit functions
// worked at once.
func (n *nest) done(limit int) {
	n.Helper()
	synctest.Wait()
	if st := n.pool.Stats(); st.InUse+st.Queued > 0 {
		n.Errorf("%d permits out, %d queued at the end; want none", st.InUse, st.Queued)
	}
	if most := n.most.Load(); most > int64(limit) {
		n.Errorf("%d functions worked at once; want at most %d", most, limit)
	}
}

// leaf is a load that calls no Guard.
func (n *nest) leaf(ctx context.Context, _ string) (int, error) { n.work(ctx, ms); return 1, nil }

// asks returns a load that gets the same key from g, with some work before and
// after.
func (n *nest) asks(g *weir.Guard[string, int]) func(context.Context, string) (int, error) {
	return func(ctx context.Context, key string) (int, error) {
		n.work(ctx, ms)
		v, err := g.Get(ctx, key)
		n.work(ctx, ms)
		return v, err
	}
}

func (n *nest) all(calls int, get func(i int) (int, error)) time.Duration {
	n.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if v, err := get(i); v != 1 || err != nil {
				n.Errorf("call %d = %d, %v; want 1, nil", i, v, err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func key(i int) string { return fmt.Sprint("k", i) }

// B6: every permit is held by a load that calls another Guard under the same
// limit.
func TestB6NestedGuardsShareTheirPermit(t *testing.T) {
	for _, limits := range []int{1, 3} {
		for depth := 1; depth <= 4; depth++ {
			t.Run(fmt.Sprint(limits, "/", depth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNest(t, limit.ConcurrencyOptions{Limit: limits, Queue: 100, MaxWait: time.Hour})
					g := n.guard(n.leaf, nil)
					for range depth {
						g = n.guard(n.asks(g), nil)
					}
					took := n.all(4*limits, func(i int) (int, error) { return g.Get(t.Context(), key(i)) })
					if want := 4 * time.Duration(1+2*depth) * ms; took != want {
						t.Errorf("it took %v; want %v", took, want)
					}
					n.done(limits)
				})
			})
		}
	}
}

// B6: a queued flight that is joined by a load with a permit runs under that
// permit. The outside caller that started it is served too.
func TestB6LoadThatJoinsAQueuedFlightLendsItItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNest(t, limit.ConcurrencyOptions{Limit: 1, Queue: 100, MaxWait: time.Hour})
		b := n.guard(n.leaf, nil)
		a := n.guard(n.asks(b), nil)
		took := n.all(2, func(i int) (int, error) {
			if i == 1 { // comes when A has the permit, and before it asks
				time.Sleep(ms / 2)
				return b.Get(t.Context(), "k")
			}
			return a.Get(t.Context(), "k")
		})
		if took != 3*ms || b.Stats().Loads != 1 {
			t.Errorf("it took %v, and %d loads; want 3ms, 1", took, b.Stats().Loads)
		}
		n.done(1)
	})
}

// B6: a load that requests several keys at once lends its permit to one of them at
// a time. The others queue, and get it one after another.
func TestB6PermitIsLentToOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNest(t, limit.ConcurrencyOptions{Limit: 2, Queue: 100, MaxWait: time.Hour})
		b := n.guard(n.leaf, nil)
		a := n.guard(func(ctx context.Context, key string) (int, error) {
			n.work(ctx, ms) // until both have their permits
			for k, r := range b.GetMany(ctx, []string{key + "1", key + "2", key + "3"}) {
				if r.Err != nil {
					return 0, fmt.Errorf("%s: %w", k, r.Err)
				}
			}
			return 1, nil
		}, nil)
		if took := n.all(2, func(i int) (int, error) { return a.Get(t.Context(), key(i)) }); took != 4*ms {
			t.Errorf("it took %v; want 4ms", took)
		}
		n.done(2)
	})
}

// B6: a permit may be lent through Guards without a limit, and through flights
// that an outside caller has started.
func TestB6PermitIsLentThroughOtherFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNest(t, limit.ConcurrencyOptions{Limit: 1, Queue: 100, MaxWait: time.Hour})
		c := n.guard(n.leaf, nil)
		b := n.guard(func(ctx context.Context, key string) (int, error) {
			time.Sleep(2 * ms)
			return c.Get(ctx, key)
		}, func(o *weir.Options) { o.Limiter = nil })
		a := n.guard(func(ctx context.Context, key string) (int, error) {
			n.work(ctx, 3*ms)
			return b.Get(ctx, key)
		}, nil)
		took := n.all(2, func(i int) (int, error) {
			if i == 0 {
				return b.Get(t.Context(), "k") // asks c at 2ms, which queues
			}
			return a.Get(t.Context(), "k") // joins b at 3ms
		})
		if took != 4*ms {
			t.Errorf("it took %v; want 4ms", took)
		}
		n.done(1)
	})
}

// B6, B1: the permit is released when both have ended: the load that lent it, and
// the one that used it.
func TestB6PermitIsBackWhenBothHaveEnded(t *testing.T) {
	for _, first := range []string{"lender", "borrower"} {
		t.Run(first, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNest(t, limit.ConcurrencyOptions{Limit: 1, Queue: 100, MaxWait: time.Hour})
				lender, borrower := 10*ms, 5*ms
				if first == "lender" {
					lender, borrower = borrower, lender
				}
				b := n.guard(func(context.Context, string) (int, error) { // deaf
					time.Sleep(borrower - ms)
					return 1, nil
				}, nil)
				a := n.guard(func(ctx context.Context, key string) (int, error) {
					time.Sleep(ms)
					short, cancel := context.WithTimeout(ctx, ms)
					defer cancel()
					b.Get(short, key) // leaves at 2ms
					time.Sleep(lender - 2*ms)
					return 1, nil
				}, nil)
				go a.Get(t.Context(), "k")
				time.Sleep(9*ms + ms/2)
				if got := n.pool.Stats().InUse; got != 1 {
					t.Errorf("%d permits out before both have ended; want 1", got)
				}
				time.Sleep(ms)
				if got := n.pool.Stats().InUse; got != 0 {
					t.Errorf("%d permits out when both have ended; want 0", got)
				}
				n.done(1)
			})
		})
	}
}

// B6: the same with limits that are parts of an All, an Adaptive, and a user's
// Limiter, which has room and lends nothing.
func TestB6KindsOfLimiters(t *testing.T) {
	rate, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(*limit.Concurrency) (outer, inner limit.Limiter){
		"All": func(p *limit.Concurrency) (limit.Limiter, limit.Limiter) { l := limit.All(rate, p); return l, l },
		"All in All": func(p *limit.Concurrency) (limit.Limiter, limit.Limiter) {
			return limit.All(rate, limit.All(rate, p)), p
		},
		"inner All": func(p *limit.Concurrency) (limit.Limiter, limit.Limiter) { return p, limit.All(rate, p) },
		"adaptive": func(*limit.Concurrency) (limit.Limiter, limit.Limiter) {
			l, _ := limit.NewAdaptive(limit.AdaptiveOptions{Initial: 1, Min: 1, Max: 1, Queue: 100, MaxWait: time.Hour})
			return l, l
		},
		"elsewhere": func(p *limit.Concurrency) (limit.Limiter, limit.Limiter) {
			roomy, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 100})
			l := rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
				p, err := roomy.Acquire(ctx)
				return limit.NewPermit(p.Release), err
			})
			return l, l
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNest(t, limit.ConcurrencyOptions{Limit: 1, Queue: 100, MaxWait: time.Hour})
				outer, inner := make(n.pool)
				n.l = inner
				b := n.guard(n.leaf, nil)
				n.l = outer
				a := n.guard(n.asks(b), nil)
				n.all(5, func(i int) (int, error) { return a.Get(t.Context(), key(i)) })
				if name != "elsewhere" {
					n.done(1)
				}
			})
		})
	}
}

// B6, B3: bulk loads, gathered ones and refreshes in the background nest as well.
func TestB6NestedBulkLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNest(t, limit.ConcurrencyOptions{Limit: 2, Queue: 100, MaxWait: time.Hour})
		many := func(then func(context.Context, []string) error) weir.Source[string, int] {
			return weir.Source[string, int]{LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
				n.work(ctx, ms)
				values := make(map[string]int)
				for _, key := range keys {
					values[key] = 1
				}
				return values, then(ctx, keys)
			}}
		}
		o := weir.Options{Limiter: n.l, LoadTimeout: -1, TTL: ms, StaleWhileRevalidate: time.Hour, Batch: weir.Batching{MaxSize: 4, MaxParallel: 50}}
		b := weir.Must(weir.NewFrom(many(func(context.Context, []string) error { return nil }), o))
		a := weir.Must(weir.NewFrom(many(func(ctx context.Context, keys []string) error {
			for _, r := range b.GetMany(ctx, append(keys, "shared")) {
				if r.Err != nil {
					return r.Err
				}
			}
			_, err := b.Get(ctx, keys[0]+"'")
			return err
		}), o))
		for range 3 {
			n.all(20, func(i int) (int, error) { return a.Get(t.Context(), key(i%7)) })
			time.Sleep(5 * ms)
		}
		for _, g := range []*weir.Guard[string, int]{a, b} {
			if err := g.Close(t.Context()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		}
		n.done(2)
	})
}

// B6, against a model: Guards that call each other at random under few permits,
// with callers that leave, still end, and never take more permits than there
// are. If no caller leaves before its answer, no more functions work at once
// than there are permits.
func TestB6History(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { nestHistory(t, seed) })
		})
	}
}

func nestHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 6))
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
	permits, levels, impatient := 1+draw(3), 2+draw(3), draw(2) == 0
	n := newNest(t, limit.ConcurrencyOptions{Limit: permits, Queue: 10000, MaxWait: 24 * time.Hour})
	guards := make([]*weir.Guard[string, int], levels)
	for i := range levels {
		unlimited := draw(4) == 0
		guards[i] = n.guard(func(ctx context.Context, _ string) (int, error) {
			if unlimited {
				time.Sleep(time.Duration(draw(3)) * ms)
			} else {
				n.work(ctx, time.Duration(draw(3))*ms)
			}
			if i+1 == levels {
				return 1, nil
			}
			var wg sync.WaitGroup
			for range draw(3) { // several at once, of levels below
				g, key := guards[i+1+draw(levels-i-1)], key(draw(3))
				wait := ctx
				if impatient && draw(3) == 0 {
					short, cancel := context.WithTimeout(ctx, time.Duration(1+draw(4))*ms)
					defer cancel()
					wait = short
				}
				wg.Go(func() { g.Get(wait, key) })
			}
			wg.Wait()
			if !unlimited {
				n.work(ctx, time.Duration(draw(2))*ms)
			}
			return 1, nil
		}, func(o *weir.Options) {
			if unlimited {
				o.Limiter = nil
			}
		})
	}
	var wg sync.WaitGroup
	for range 30 {
		g, key, at := guards[draw(levels)], key(draw(3)), time.Duration(draw(20))*ms
		ctx := t.Context()
		if impatient && draw(3) == 0 {
			short, cancel := context.WithTimeout(ctx, at+time.Duration(1+draw(10))*ms)
			defer cancel()
			ctx = short
		}
		wg.Go(func() {
			time.Sleep(at)
			_, hurried := ctx.Deadline() // then it may be refused because of its deadline
			if v, err := g.Get(ctx, key); (v != 1 || err != nil) && !hurried {
				t.Errorf("Get = %d, %v; want 1, nil", v, err)
			}
			if st := n.pool.Stats(); st.InUse > permits {
				t.Errorf("%d permits out; want at most %d", st.InUse, permits)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Hour):
		st := n.pool.Stats()
		t.Fatalf("nothing moves: %d permits out, %d queued", st.InUse, st.Queued)
	}
	time.Sleep(time.Second)
	if impatient {
		n.most.Store(0) // a caller that leaves continues while the load with its permit runs
	}
	n.done(permits)
}
