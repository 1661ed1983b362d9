package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// Clients that call again and again, never more at once than can be served in time, are
// not refused, however long the queue stands.
func TestB4ASteadyQueueIsNoOverload(t *testing.T) {
	for _, clients := range []int{4, 50, 500, 1000, 4000} {
		for _, name := range []string{"constant", "exponential"} {
			t.Run(fmt.Sprint(clients, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newConcurrency(t, limit.ConcurrencyOptions{Limit: 16})
					end := time.Now().Add(30 * time.Second)
					var mu sync.Mutex
					r := rand.New(rand.NewPCG(40, 0))
					mean := 100 * time.Millisecond
					if clients == 4000 {
						mean = 10 * time.Millisecond // longer calls would not be served within MaxWait
					}
					call := func() time.Duration {
						if name == "constant" {
							return mean
						}
						mu.Lock()
						defer mu.Unlock()
						return time.Duration(r.ExpFloat64() * float64(mean))
					}
					var longest time.Duration
					var all sync.WaitGroup
					for range clients {
						all.Go(func() {
							for time.Now().Before(end) {
								from := time.Now()
								p, err := l.Acquire(t.Context())
								if err != nil {
									t.Error(err)
									return
								}
								mu.Lock()
								longest = max(longest, time.Since(from))
								mu.Unlock()
								time.Sleep(call())
								p.Release(limit.Success)
							}
						})
					}
					all.Wait()
					if most := 3 * time.Duration(clients) * mean / 16 / 2; clients > 16 && longest > most {
						t.Errorf("the longest wait was %v; want at most %v, half more than in order", longest, most)
					}
				})
			})
		}
	}
}

// The default of Queue refuses no caller whose turn comes within MaxWait, and bounds the queue
// of a source that hangs.
func TestB4TheDefaultQueueHoldsWhatIsServedInTime(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 16, MaxWait: 10 * time.Second, OverloadAfter: -1}, func(t *testing.T, l queued) {
		const held, most, hung = time.Millisecond, 16384, 4096
		var p []limit.Permit
		for range 16 {
			p = append(p, admitted(t, l, t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var queue sync.WaitGroup
		fill := func(n int) {
			for range n {
				queue.Go(func() {
					if p, err := l.Acquire(ctx); err == nil {
						p.Release(limit.Unused)
					}
				})
			}
			synctest.Wait()
		}
		fill(hung)
		_, err := l.Acquire(t.Context())
		refused(t, err, limit.QueueFull) // nothing has been measured
		time.Sleep(held)
		p[0].Release(limit.Success) // all of them have been served
		synctest.Wait()
		p[0] = admitted(t, l, t.Context())
		fill(most)
		_, err = l.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		time.Sleep(4*held + 1) // a release is overdue
		cancel()
		queue.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		fill(hung)
		_, err = l.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		cancel()
		queue.Wait()
		for _, p := range p {
			p.Release(limit.Success)
		}
	})
}

// With more callers than the source can serve, those that are admitted still have time for
// their call, whether the limiter knows their deadline or sees them leave.
func TestB4UnderOverloadPermitsGoToCallersWithTime(t *testing.T) {
	const patience, held, permits = time.Second, 200 * time.Millisecond, 8
	answered := func(t *testing.T, load float64, after time.Duration, told bool) (share float64) {
		synctest.Test(t, func(t *testing.T) {
			l := newConcurrency(t, limit.ConcurrencyOptions{Limit: permits, OverloadAfter: after})
			r := rand.New(rand.NewPCG(40, 1))
			capacity := permits / held.Seconds()
			inTime := 0
			var mu sync.Mutex
			var all sync.WaitGroup
			const warm, whole = 10 * time.Second, 70 * time.Second
			begin := time.Now()
			for at := time.Duration(0); at < whole; at += time.Duration(r.ExpFloat64() / (load * capacity) * 1e9) {
				time.Sleep(time.Until(begin.Add(at)))
				took := time.Duration(r.ExpFloat64() * float64(held))
				all.Go(func() {
					from := time.Now()
					var ctx context.Context
					var cancel context.CancelFunc
					if told {
						ctx, cancel = context.WithTimeout(t.Context(), patience)
					} else {
						ctx, cancel = context.WithCancel(t.Context())
						defer time.AfterFunc(patience, cancel).Stop()
					}
					defer cancel()
					p, err := l.Acquire(ctx)
					if err != nil {
						if !errors.Is(err, limit.ErrLimited) && ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					time.Sleep(took) // the source does not notice that the caller has left
					p.Release(limit.Success)
					if at >= warm && time.Since(from) <= patience {
						mu.Lock()
						inTime++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			share = float64(inTime) / (capacity * (whole - warm).Seconds())
		})
		return share
	}
	for _, told := range []bool{true, false} {
		for _, load := range []float64{1.1, 1.5, 3} {
			t.Run(fmt.Sprint("deadlines ", told, " load ", load), func(t *testing.T) {
				got, inOrder := answered(t, load, 0, told), answered(t, load, -1, told)
				if got < 0.85 {
					t.Errorf("%.2f of the capacity is answered in time; want 0.85 (always in order: %.2f)", got, inOrder)
				}
				t.Logf("%.3f of the capacity; always in order: %.3f", got, inOrder)
			})
		}
	}
}
