package limit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/limit"
)

// seeded makes RetryAfter depend on a seed until the test ends.
func seeded(t *testing.T) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(4, 6))
	spread.Fix(func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	})
	t.Cleanup(func() { spread.Fix(func() float64 { return 0 }) })
}

// even checks that the RetryAfter of 1,000 rejections are evenly distributed from least to most.
func even(t *testing.T, what string, least, most time.Duration, try func() error) {
	t.Helper()
	var tenths [10]int
	for range 1000 {
		err := try()
		var e *limit.Error
		if e, _ = err.(*limit.Error); e == nil || e.RetryAfter < least || e.RetryAfter > most {
			t.Fatalf("%s: %v; want a rejection with RetryAfter from %v to %v", what, err, least, most)
		}
		tenths[min(9, 10*(e.RetryAfter-least)/(most-least))]++
	}
	for i, n := range tenths {
		if n < 60 || n > 140 {
			t.Errorf("%s: %d of 1000 RetryAfter are in tenth %d of the range; want about 100: %v", what, n, i, tenths)
		}
	}
}

// A thousand callers that are rejected in one instant do not come back in one instant: RetryAfter is uniform between
// the expected wait and twice that, and at most MaxRetryAfter.
func TestH46_RefusalsSpread(t *testing.T) {
	seeded(t)
	for _, row := range []struct {
		name        string
		held        time.Duration
		bound       time.Duration
		least, most time.Duration
	}{
		{"nothing measured", 0, 0, time.Second, 4 * time.Second},
		{"nothing measured, and a low bound", 0, time.Second, 500 * time.Millisecond, time.Second},
		{"a short wait", 200 * time.Millisecond, 0, 200 * time.Millisecond, 400 * time.Millisecond},
		{"twice the wait is above the bound", 8 * time.Second, 0, 5 * time.Second, 10 * time.Second},
		{"the wait is above the bound", time.Minute, 0, 5 * time.Second, 10 * time.Second},
		{"a bound that is set", time.Minute, 4 * time.Minute, time.Minute, 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1, MaxRetryAfter: row.bound}))
			if row.held > 0 {
				p, _ := c.TryAcquire()
				time.Sleep(row.held)
				p.Release(limit.Success)
			}
			p, _ := c.TryAcquire()
			even(t, row.name, row.least, row.most, func() error { _, err := c.TryAcquire(); return err })
			even(t, row.name+", Acquire", row.least, row.most, func() error { _, err := c.Acquire(context.Background()); return err })
			p.Release(limit.Success)
		})
	}
}

// The wait for a token is known, so no caller comes back before it, and none more than 10 s later.
func TestH46_TheWaitForATokenIsNeverShortened(t *testing.T) {
	seeded(t)
	for _, row := range []struct {
		perSecond   float64
		least, most time.Duration
	}{
		{1, time.Second, 2 * time.Second},
		{1.0 / 60, time.Minute, 70 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: row.perSecond, Burst: 1}))
			_, _ = l.TryAcquire()
			even(t, "a RateLimiter", row.least, row.most+time.Millisecond, func() error { _, err := l.TryAcquire(); return err })
		})
	}
}

// The callers that an Update or a fuller queue rejects are spread as well.
func TestH46_DisplacedCallersSpread(t *testing.T) {
	seeded(t)
	synctest.Test(t, func(t *testing.T) {
		c := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1000, Queue: 2000}))
		for range 1000 {
			_, _ = c.TryAcquire()
		}
		seen := map[time.Duration]bool{}
		var mu sync.Mutex
		for range 200 {
			go func() {
				_, err := c.AcquireN(context.Background(), 900)
				if e, ok := err.(*limit.Error); ok {
					mu.Lock()
					defer mu.Unlock()
					seen[e.RetryAfter] = true
				}
			}()
		}
		synctest.Wait()
		if err := c.Update(limit.ConcurrencyOptions{Limit: 10, Queue: 2000}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(seen) < 190 {
			t.Errorf("200 callers that were rejected together got %d different times; want as many as callers", len(seen))
		}
	})
}
