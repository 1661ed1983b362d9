package batch_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// A spoilt Limiter calls acquire before it hands out a permit, and release after a
// permit has been released.
type spoilt struct {
	l                *limit.Concurrency
	acquire, release *func()
}

func (s spoilt) Acquire(ctx context.Context) (limit.Permit, error) {
	(*s.acquire)()
	p, err := s.l.Acquire(ctx)
	return limit.NewPermit(func(o limit.Outcome) { p.Release(o); (*s.release)() }), err
}

// F6: if any of the user's functions panics or exits, the callers still return, permit
// and slot are freed, and Close returns.
func TestF6CallbackThatFailsLeavesNothingBehind(t *testing.T) {
	for name, fault := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		for _, callback := range []string{"Run", "RunContext", "Retry", "Scope", "Acquire", "Release"} {
			t.Run(callback+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					armed := ""
					at := func(name string) {
						if armed == name {
							fault()
						}
					}
					acquire, release := func() { at("Acquire") }, func() { at("Release") }
					l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
					if err != nil {
						t.Fatal(err)
					}
					b := batch.Must(batch.NewFrom(batch.Source[int, int]{
						Run: func(_ context.Context, items []int) ([]int, error) {
							time.Sleep(time.Millisecond)
							at("Run")
							if armed == "Retry" {
								return nil, context.DeadlineExceeded
							}
							return items, nil
						},
						RunContext: func(ctx context.Context) context.Context { at("RunContext"); return ctx },
						Retry:      func(error) bool { at("Retry"); return false },
						Scope:      func(int) any { at("Scope"); return nil },
					}, batch.Options{MaxParallel: 1, Timeout: -1, RetrySingly: true, Limiter: spoilt{l, &acquire, &release}}))
					armed = callback
					ended := make(chan struct{})
					const callers = 3
					for i := range callers {
						go func() {
							defer func() { _ = recover(); ended <- struct{}{} }()
							b.Do(t.Context(), i)
						}()
					}
					for range callers {
						<-ended
					}
					synctest.Wait()
					armed = ""
					if v, err := b.Do(t.Context(), 7); v != 7 || err != nil {
						t.Errorf("the next Do = %d, %v; want 7, nil", v, err)
					}
					if err := b.Close(t.Context()); err != nil {
						t.Errorf("Close = %v; want nil", err)
					}
					if st := l.Stats(); st.InUse+st.Queued > 0 {
						t.Errorf("%d permits in use, %d queued; want none", st.InUse, st.Queued)
					}
				})
			})
		}
	}
}

// B6: bulk calls that add items to another Batcher under the same limit do not
// deadlock.
func TestB6NestedBatchersShareTheirPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2, MaxWait: -1})
		if err != nil {
			t.Fatal(err)
		}
		o := batch.Options{MaxSize: 2, MaxParallel: 50, Timeout: -1, Limiter: l, RetrySingly: true}
		inner := batch.Must(batch.New(func(_ context.Context, items []int) ([]int, error) {
			time.Sleep(time.Millisecond)
			if len(items) > 1 {
				return nil, context.DeadlineExceeded // each is retried alone
			}
			return items, nil
		}, o))
		outer := batch.Must(batch.New(func(ctx context.Context, items []int) ([]int, error) {
			time.Sleep(time.Millisecond)
			for _, item := range items {
				if _, err := inner.Do(ctx, item%3); err != nil {
					return nil, err
				}
			}
			return items, nil
		}, o))
		ended := make(chan struct{})
		const callers = 20
		for i := range callers {
			go func() {
				if v, err := outer.Do(t.Context(), i); v != i || err != nil {
					t.Errorf("Do(%d) = %d, %v; want the item", i, v, err)
				}
				ended <- struct{}{}
			}()
		}
		for range callers {
			select {
			case <-ended:
			case <-time.After(time.Hour):
				t.Fatal("deadlock: no call ends")
			}
		}
		synctest.Wait()
		if st := l.Stats(); st.InUse+st.Queued > 0 {
			t.Errorf("%d permits in use, %d queued; want none", st.InUse, st.Queued)
		}
	})
}

// F3: a queued batch has the highest priority of its current callers.
func TestF3PriorityOfPresentCallers(t *testing.T) {
	for _, at := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond} { // while it lingers, and after
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, OverloadAfter: -1})
				if err != nil {
					t.Fatal(err)
				}
				p, _ := l.Acquire(t.Context())
				var order []int
				b := batch.Must(batch.NewFrom(batch.Source[int, int]{
					Run: func(_ context.Context, items []int) ([]int, error) {
						order = append(order, items[0])
						time.Sleep(time.Millisecond)
						return items, nil
					},
					Scope: func(item int) any { return item / 10 },
				}, batch.Options{MaxSize: 4, Linger: 10 * time.Millisecond, Limiter: l}))
				leaver, leave := context.WithCancel(t.Context())
				do := func(ctx context.Context, p limit.Priority, item int) {
					go b.Do(limit.ContextWithPriority(ctx, p), item)
					synctest.Wait()
				}
				do(t.Context(), limit.Low, 20)
				do(leaver, limit.High, 21)
				do(t.Context(), limit.Normal, 10)
				time.AfterFunc(at, leave)
				time.Sleep(50 * time.Millisecond)
				p.Release(limit.Unused)
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				if len(order) != 2 || order[0] != 10 || order[1] != 20 {
					t.Errorf("batches ran in order %v; want [10 20]", order)
				}
				if err := b.Close(t.Context()); err != nil {
					t.Errorf("Close = %v; want nil", err)
				}
			})
		})
	}
}
