package limit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

func newConcurrency(t testing.TB, o limit.ConcurrencyOptions) *limit.Concurrency {
	t.Helper()
	c, err := limit.NewConcurrency(o)
	if err != nil {
		t.Fatalf("NewConcurrency(%+v) = %v", o, err)
	}
	t.Cleanup(func() { c.Check(t) })
	return c
}

func newRate(t testing.TB, o limit.RateOptions) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewRateLimiter(o)
	if err != nil {
		t.Fatalf("NewRateLimiter(%+v) = %v", o, err)
	}
	t.Cleanup(func() { l.Check(t) })
	return l
}

func newAdaptive(t testing.TB, o limit.AdaptiveOptions) *limit.Adaptive {
	t.Helper()
	a, err := limit.NewAdaptive(o)
	if err != nil {
		t.Fatalf("NewAdaptive(%+v) = %v", o, err)
	}
	t.Cleanup(func() { a.Check(t) })
	return a
}

// A queued is a Limiter with a queue of classes.
type queued interface {
	limit.Limiter
	acquirer
	TryAcquire() (limit.Permit, error)
	Check(testing.TB)
}

// eachQueued runs test, in a bubble, with a Concurrency and with an Adaptive
// whose limit is fixed. The Adaptive ignores o.Reserve.
func eachQueued(t *testing.T, o limit.ConcurrencyOptions, test func(*testing.T, queued)) {
	t.Helper()
	t.Run("Concurrency", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newConcurrency(t, o)) })
	})
	t.Run("Adaptive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if o.MaxWait == 0 {
				o.MaxWait = 10 * time.Second
			}
			test(t, newAdaptive(t, limit.AdaptiveOptions{
				Name: o.Name, Initial: o.Limit, Min: o.Limit, Max: o.Limit,
				Queue: o.Queue, MaxWait: o.MaxWait, OverloadAfter: o.OverloadAfter,
			}))
		})
	})
}

// statsOf returns the statistics that a Concurrency and an Adaptive have in common.
func statsOf(l queued) limit.ConcurrencyStats {
	if a, ok := l.(*limit.Adaptive); ok {
		return a.Stats().ConcurrencyStats
	}
	return l.(*limit.Concurrency).Stats()
}

// held makes l measure a permit that is held for d.
func held(t testing.TB, l limit.Limiter, d time.Duration) {
	t.Helper()
	p := admitted(t, l, t.Context())
	time.Sleep(d)
	p.Release(limit.Success)
}

// of returns a context of class p.
func of(t testing.TB, p limit.Priority) context.Context {
	return limit.ContextWithPriority(t.Context(), p)
}

// acquired acquires from l.
func acquired(t testing.TB, l limit.Limiter, ctx context.Context) limit.Permit {
	t.Helper()
	p, err := l.Acquire(ctx)
	if err != nil {
		t.Fatalf("Acquire = %v; want a permit", err)
	}
	return p
}

// admitted acquires from l in a bubble, and checks that there was no wait.
func admitted(t testing.TB, l limit.Limiter, ctx context.Context) limit.Permit {
	t.Helper()
	before := time.Now()
	p := acquired(t, l, ctx)
	if d := time.Since(before); d != 0 {
		t.Fatalf("Acquire took %v; want a permit at once", d)
	}
	return p
}

// refused checks that err is a rejection with that reason, and returns it.
func refused(t testing.TB, err error, want limit.Reason) *limit.Error {
	t.Helper()
	var e *limit.Error
	if !errors.As(err, &e) || e.Reason != want || !errors.Is(err, limit.ErrLimited) || e.RetryAfter <= 0 {
		t.Fatalf("error = %v; want a rejection with reason %q and RetryAfter", err, want)
	}
	return e
}

// A call is an Acquire on a separate goroutine.
type call struct {
	start  time.Time
	cancel context.CancelCauseFunc

	back   atomic.Bool  // set once the fields below are final
	permit limit.Permit // as those below, read only after back is set
	err    error
	took   time.Duration
}

// start acquires from l on a goroutine, in a bubble, and returns when that
// goroutine waits or has finished.
func start(l limit.Limiter, ctx context.Context) *call {
	ctx, cancel := context.WithCancelCause(ctx)
	c := startBare(l, ctx)
	c.cancel = cancel
	return c
}

// startBare is start without a cancel.
func startBare(l limit.Limiter, ctx context.Context) *call {
	c := &call{start: time.Now()}
	go func() {
		c.permit, c.err = l.Acquire(ctx)
		c.took = time.Since(c.start)
		c.back.Store(true)
	}()
	synctest.Wait()
	return c
}

// got checks that the call was admitted after took, and returns its permit.
func (c *call) got(t testing.TB, took time.Duration) limit.Permit {
	t.Helper()
	synctest.Wait()
	if !c.back.Load() || c.err != nil || c.took != took {
		t.Fatalf("Acquire: returned %t, error %v, after %v; want a permit after %v", c.back.Load(), c.err, c.took, took)
	}
	return c.permit
}

// lost checks that the call ended with err after took.
func (c *call) lost(t testing.TB, err error, took time.Duration) {
	t.Helper()
	synctest.Wait()
	if !c.back.Load() || !errors.Is(c.err, err) || c.took != took {
		t.Fatalf("Acquire: returned %t, error %v, after %v; want %v after %v", c.back.Load(), c.err, c.took, err, took)
	}
}

// waits checks that the call has not returned.
func (c *call) waits(t testing.TB) {
	t.Helper()
	synctest.Wait()
	if c.back.Load() {
		t.Fatalf("Acquire returned after %v with error %v; want it to wait", c.took, c.err)
	}
}

func background(t testing.TB) context.Context { return of(t, limit.Background) }

// within returns a context with a deadline d from now.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

var errGone = errors.New("the caller is gone")

// A mute context ends silently: Err reports it, but Done never fires. It stands for
// a select that takes another ready case although ctx is done.
type mute struct {
	context.Context
	ended atomic.Bool
}

func (m *mute) Err() error {
	if m.ended.Load() {
		return errGone
	}
	return nil
}

func (m *mute) Done() <-chan struct{} { return nil }
