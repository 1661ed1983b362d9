package loads_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// lane is a Guard with one permit, which is held for one second, and the order
// in which keys were loaded.
type lane struct {
	*testing.T
	g     *weir.Guard[string, int]
	l     *limit.Concurrency
	mu    sync.Mutex
	order []string // guarded by mu
}

func newLane(t *testing.T, change func(*weir.Options, *weir.Source[string, int])) *lane {
	t.Helper()
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, OverloadAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := &lane{T: t, l: l}
	load := func(_ context.Context, key string) (int, error) {
		a.mu.Lock()
		a.order = append(a.order, key)
		a.mu.Unlock()
		time.Sleep(ms)
		return 1, nil
	}
	o := weir.Options{Limiter: l}
	src := weir.Source[string, int]{Load: load}
	if change != nil {
		change(&o, &src)
	}
	if a.g, err = weir.NewFrom(src, o); err != nil {
		t.Fatal(err)
	}
	p, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { p.Release(limit.Unused) })
	return a
}

// asks starts a caller that requests key at at and leaves at until (0: never).
func (a *lane) asks(key string, p limit.Priority, at, until time.Duration) {
	ctx, cancel := context.WithCancel(limit.ContextWithPriority(a.Context(), p))
	a.Cleanup(cancel)
	time.AfterFunc(at, func() { go a.g.Get(ctx, key) })
	if until > 0 {
		time.AfterFunc(until, cancel)
	}
}

func (a *lane) want(order ...string) {
	a.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if fmt.Sprint(a.order) != fmt.Sprint(order) {
		a.Errorf("the keys are loaded as %v; want %v", a.order, order)
	}
	if err := a.g.Close(a.Context()); err != nil {
		a.Errorf("Close = %v; want nil", err)
	}
}

// F3: a queued flight has the highest priority of its present callers. When a caller
// leaves, its priority no longer counts, and the others return to the place that they would
// have had without it.
func TestF3PriorityOfPresentJoiners(t *testing.T) {
	for name, tell := range map[string]func(*lane){
		"who joined leaves": func(a *lane) {
			a.asks("a", limit.Normal, 1*ms, 0)
			a.asks("b", limit.Normal, 2*ms, 0)
			a.asks("c", limit.Low, 3*ms, 0)
			a.asks("c", limit.High, 4*ms, 10*ms)
			a.want("a", "b", "c")
		},
		"who started leaves": func(a *lane) {
			a.asks("c", limit.High, 1*ms, 10*ms)
			a.asks("a", limit.Normal, 2*ms, 0)
			a.asks("c", limit.Low, 3*ms, 0)
			a.asks("b", limit.Normal, 4*ms, 0)
			a.want("a", "b", "c")
		},
		"its own turn again": func(a *lane) {
			a.asks("a", limit.Normal, 1*ms, 0)
			a.asks("b", limit.Normal, 2*ms, 0)
			a.asks("a", limit.High, 3*ms, 10*ms)
			a.asks("c", limit.Normal, 4*ms, 0)
			a.want("a", "b", "c")
		},
		"another stays": func(a *lane) {
			a.asks("b", limit.Normal, 1*ms, 0)
			a.asks("a", limit.Low, 2*ms, 0)
			a.asks("a", limit.High, 3*ms, 10*ms)
			a.asks("a", limit.High, 4*ms, 0)
			a.want("a", "b")
		},
		"and comes again": func(a *lane) {
			a.asks("b", limit.Normal, 1*ms, 0)
			a.asks("a", limit.Low, 2*ms, 0)
			a.asks("a", limit.High, 3*ms, 10*ms)
			a.asks("a", limit.High, 20*ms, 0)
			a.want("a", "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tell(newLane(t, nil)) })
		})
	}
}

// F3: the same for a bulk load, also before it reaches the limiter.
func TestF3PriorityOfPresentJoinersOfABatch(t *testing.T) {
	for _, leaves := range []time.Duration{2 * ms, 20 * ms} { // the batch lingers until 11ms
		t.Run(leaves.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newLane(t, func(o *weir.Options, src *weir.Source[string, int]) {
					one := src.Load
					src.Load = nil
					src.LoadMany = func(ctx context.Context, keys []string) (map[string]int, error) {
						_, err := one(ctx, keys[0])
						return map[string]int{keys[0]: 1}, err
					}
					src.BatchScope = func(_ context.Context, key string) any { return key[:1] }
					o.Batch = weir.Batching{MaxSize: 4, Linger: 10 * ms, MaxParallel: 10}
				})
				a.asks("b1", limit.Low, 1*ms, 0)
				a.asks("b2", limit.High, 1*ms+1, leaves)
				a.asks("a1", limit.Normal, 3*ms, 0)
				a.want("a1", "b1")
			})
		})
	}
}
