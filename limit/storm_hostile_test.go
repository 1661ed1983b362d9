package limit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A client is a number of callers that make one call after the other in a bubble.
type client struct {
	name     string
	callers  int
	from     time.Duration // when it begins
	takes    time.Duration // each of its calls, if the source is well
	patience time.Duration // after which its callers leave; 0: never
	served   int           // calls that have ended in time
}

// run makes calls until the end of ctx.
func (c *client) run(ctx context.Context, l limit.Limiter) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range c.callers {
		all.Go(func() {
			for time.Sleep(c.from); ctx.Err() == nil; {
				p, err := l.Acquire(limit.ContextWithTenant(ctx, limit.Tenant{Name: c.name}))
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if c.patience > 0 {
					time.Sleep(c.patience)
					p.Abandon()
					time.Sleep(c.takes - c.patience)
					p.Release(limit.Ignored)
					continue
				}
				time.Sleep(c.takes)
				p.Release(limit.Success)
				mu.Lock()
				c.served++
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// B9, H42: a client whose callers always leave takes nothing from the others, with the default
// options. The source is well.
func TestB9AClientWhoseCallersLeaveTakesNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leaves client
	}{
		{"after 1 ms, from the start on", client{callers: 64, takes: time.Millisecond, patience: time.Millisecond}},
		{"after longer than calls take", client{callers: 128, from: time.Second, takes: 160 * time.Millisecond, patience: 160 * time.Millisecond}},
		{"of long calls", client{callers: 128, from: time.Second, takes: 10 * time.Second, patience: 160 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 256})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				lowest := 256
				other := client{name: "b", callers: 40, from: 100 * time.Millisecond, takes: 100 * time.Millisecond}
				var all sync.WaitGroup
				tt.leaves.name = "a"
				all.Go(func() { tt.leaves.run(ctx, l) })
				all.Go(func() { other.run(ctx, l) })
				all.Go(func() {
					for ctx.Err() == nil {
						lowest = min(lowest, l.Stats().Limit)
						time.Sleep(10 * time.Millisecond)
					}
				})
				all.Wait()
				if want := 40 * 10 * 19; other.served < want || lowest < 256 {
					t.Errorf("%d calls of the other client in 20 s, with a limit of at least %d; want %d, 256", other.served, lowest, want)
				}
			})
		})
	}
}
