package promote_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/promote"
	"github.com/weir-go/weir/limit"
)

// slow loads a value at once or in a few milliseconds. Every value names its key.
func slow(ctx context.Context, key string) (string, error) {
	timer := time.NewTimer(rand.N(6 * ms))
	defer timer.Stop()
	select {
	case <-timer.C:
		return key + "!", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Two processes of a fleet make calls of all kinds at once. Every result belongs to
// its key, every job ends, and no job, load or goroutine is left.
func TestManyCallsAtOnce(t *testing.T) {
	const callers, calls, keys = 16, 30, 12
	store, tier := open(t), fleet.NewMemory(fleet.MemoryOptions{})
	var promoters []*promote.Promoter[string, string]
	var guards []*weir.Guard[string, string]
	for range 2 {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4, Queue: 2})
		if err != nil {
			t.Fatal(err)
		}
		g := weir.Must(weir.New(slow, weir.Options{Name: "calls", TTL: 20 * ms, Limiter: l, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}}))
		t.Cleanup(func() { g.Close(context.Background()) })
		p := newPromoter(t, g, newQueue(t, store, jobs.QueueOptions{}), promote.Options[string]{MaxPromoted: 4})
		promoters, guards = append(promoters, p), append(guards, g)
	}
	workers := []*jobs.Worker{work(t, promoters[0]), work(t, promoters[1])}

	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				i, key := rand.IntN(2), fmt.Sprint("key", rand.IntN(keys))
				if rand.IntN(8) == 0 {
					if err := guards[i].Invalidate(within(t), key); err != nil {
						t.Errorf("Invalidate(%q) = %v", key, err)
					}
				}
				ctx, cancel := context.WithCancel(within(t))
				if rand.IntN(4) == 0 {
					time.AfterFunc(rand.N(4*ms), cancel)
				}
				v, job, err := promoters[i].GetWithin(ctx, key, rand.N(5*ms)-ms)
				if err == nil && job != nil {
					v, err = job.Wait(ctx)
				}
				if err != nil && !errors.Is(err, context.Canceled) || err == nil && v != key+"!" {
					t.Errorf("GetWithin(%q) = %q, %v; want %q", key, v, err, key+"!")
				}
				cancel()
			}
		})
	}
	all.Wait()
	for i, p := range promoters {
		eventually(t, "all jobs are over", func() bool { return p.Stats().Pending == 0 })
		stopNow(workers[i])
		p.Close(context.Background())
		if st := p.Stats(); st.Kept != 0 || st.Promoted == 0 || st.Failed != 0 {
			t.Errorf("Stats = %+v; want some promoted, none kept or failed", st)
		}
		eventually(t, "all loads are over", func() bool { return guards[i].Stats().Running == 0 })
	}
	// A goroutine that was waited for exists until it has returned.
	eventually(t, "no goroutine is left", func() bool {
		buf := make([]byte, 4<<20)
		return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "jobs/promote.(")
	})
}
