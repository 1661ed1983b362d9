package limit_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/limit"
)

// All faults at once, each with its field, value and bound.
func TestOptionsFaultsAreNamedAllAtOnce(t *testing.T) {
	_, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: -2, Burst: -1})
	want := "limit: RateOptions.PerSecond is -2, must be above 0\n" +
		"limit: RateOptions.Burst is -1, must be at least 1, or 0 for the default"
	if err == nil || err.Error() != want {
		t.Errorf("NewRateLimiter = %v; want %v", err, want)
	}
	_, err = limit.NewConcurrency(limit.ConcurrencyOptions{Limit: -1, Reserve: 3})
	want = "limit: ConcurrencyOptions.Limit is -1, must be at least 1\n" +
		"limit: ConcurrencyOptions.Reserve is 3, must be below Limit"
	if err == nil || err.Error() != want {
		t.Errorf("NewConcurrency = %v; want %v", err, want)
	}
	var e *limit.OptionError
	if !errors.As(err, &e) || e.Field != "ConcurrencyOptions.Limit" || e.Value != -1 {
		t.Errorf("errors.As found %+v; want the first fault", e)
	}
}

func TestRateBurstDefault(t *testing.T) {
	for _, tt := range []struct {
		perSecond float64
		want      int
	}{{0.001, 1}, {1, 1}, {19, 1}, {20, 2}, {1000, 100}, {1e300, 1 << 30}, {math.Inf(1), 1 << 30}} {
		l := newRate(t, limit.RateOptions{PerSecond: tt.perSecond})
		if got := l.Stats().Burst; got != tt.want {
			t.Errorf("PerSecond %v: Burst = %d; want %d", tt.perSecond, got, tt.want)
		}
	}
}

// The options are refused exactly when the documentation says so, and what is
// made of the others works.
func FuzzConcurrencyOptions(f *testing.F) {
	f.Add(1, 0, int64(0), 0)
	f.Add(0, -1, int64(-1), -1)
	f.Add(10, 1, int64(time.Second), 10)
	f.Add(math.MaxInt, math.MaxInt, int64(math.MaxInt64), math.MinInt)
	f.Add(math.MaxInt32, math.MinInt, int64(math.MinInt64), math.MaxInt)
	f.Fuzz(func(t *testing.T, n, queue int, maxWait int64, reserve int) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: n, Queue: queue, MaxWait: time.Duration(maxWait), Reserve: reserve})
		if valid := n >= 1 && n <= math.MaxInt32 && (reserve <= 0 || reserve < n); valid != (err == nil) {
			t.Fatalf("NewConcurrency = %v; want valid %t", err, valid)
		}
		if err != nil {
			return
		}
		p, err := c.Acquire(t.Context())
		if err != nil {
			t.Fatalf("Acquire = %v; want a permit", err)
		}
		p.Release(limit.Success)
		c.Check(t)
	})
}

func FuzzRateOptions(f *testing.F) {
	f.Add(1.0, 1, 0, int64(0))
	f.Add(math.NaN(), -1, -1, int64(-1))
	f.Add(math.Inf(1), 0, 1, int64(1))
	f.Add(math.Inf(-1), 1<<30, 1, int64(math.MaxInt64))
	f.Add(math.SmallestNonzeroFloat64, 1<<30+1, math.MaxInt, int64(math.MinInt64))
	f.Add(math.MaxFloat64, 1<<30, math.MinInt, int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, perSecond float64, burst, queue int, maxWait int64) {
		l, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: perSecond, Burst: burst, Queue: queue, MaxWait: time.Duration(maxWait)})
		if valid := perSecond > 0 && burst >= 0 && burst <= 1<<30; valid != (err == nil) {
			t.Fatalf("NewRateLimiter = %v; want valid %t", err, valid)
		}
		if err != nil {
			return
		}
		if _, err := l.Acquire(t.Context()); err != nil {
			t.Fatalf("Acquire = %v; want a token of the full bucket", err)
		}
		for range 3 {
			if _, err := l.TryAcquire(); err != nil {
				refused(t, err, limit.RateExceeded)
			}
		}
		if r, err := l.Reserve(); err == nil {
			if r.Delay() < 0 {
				t.Errorf("Delay = %v; want no less than 0", r.Delay())
			}
			r.Cancel()
		}
		l.Check(t)
	})
}
