package limit_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/limit"
)

// The error names all faults, each with its field, value and bound.
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

func TestAdaptiveOptionsFaultsAreNamedAllAtOnce(t *testing.T) {
	_, err := limit.NewAdaptive(limit.AdaptiveOptions{Min: 20_000, Max: -1, Initial: 5, Headroom: 2})
	want := "limit: AdaptiveOptions.Min is 20000, must be from 1 to 10000, or 0 for the default\n" +
		"limit: AdaptiveOptions.Max is -1, must be from 1 to 10000, or 0 for the default\n" +
		"limit: AdaptiveOptions.Min is 20000, must be at most Max\n" +
		"limit: AdaptiveOptions.Initial is 5, must be from Min to Max, or 0 for the default\n" +
		"limit: AdaptiveOptions.Headroom is 2, must be at most 1"
	if err == nil || err.Error() != want {
		t.Errorf("NewAdaptive = %v; want %v", err, want)
	}
}

func TestAdaptiveOptionsBounds(t *testing.T) {
	for _, tt := range []struct {
		o    limit.AdaptiveOptions
		want string // the field at fault, if any
	}{
		{limit.AdaptiveOptions{}, ""},
		{limit.AdaptiveOptions{Min: 10_000}, ""},
		{limit.AdaptiveOptions{Min: 10_001, Max: 10_000}, "AdaptiveOptions.Min"},
		{limit.AdaptiveOptions{Min: -1}, "AdaptiveOptions.Min"},
		{limit.AdaptiveOptions{Max: 10_000}, ""},
		{limit.AdaptiveOptions{Max: 10_001}, "AdaptiveOptions.Max"},
		{limit.AdaptiveOptions{Min: 5, Max: 5}, ""},
		{limit.AdaptiveOptions{Min: 6, Max: 5}, "AdaptiveOptions.Min"},
		{limit.AdaptiveOptions{Initial: 1000}, ""},
		{limit.AdaptiveOptions{Initial: 1001}, "AdaptiveOptions.Initial"},
		{limit.AdaptiveOptions{Initial: -1}, "AdaptiveOptions.Initial"},
		{limit.AdaptiveOptions{Initial: 4, Min: 4}, ""},
		{limit.AdaptiveOptions{Initial: 3, Min: 4}, "AdaptiveOptions.Initial"},
		{limit.AdaptiveOptions{Headroom: 1}, ""},
		{limit.AdaptiveOptions{Headroom: math.Nextafter(1, 2)}, "AdaptiveOptions.Headroom"},
		{limit.AdaptiveOptions{Headroom: math.NaN()}, "AdaptiveOptions.Headroom"},
		{limit.AdaptiveOptions{Headroom: math.Inf(-1), MaxBaseline: -1, Queue: -1, MaxWait: -1, OverloadAfter: -1}, ""},
	} {
		_, err := limit.NewAdaptive(tt.o)
		var e *limit.OptionError
		if got := ""; errors.As(err, &e) {
			if got = e.Field; got != tt.want {
				t.Errorf("NewAdaptive(%+v) = %v; want a fault in %q", tt.o, err, tt.want)
			}
		} else if tt.want != "" {
			t.Errorf("NewAdaptive(%+v) = %v; want a fault in %q", tt.o, err, tt.want)
		}
	}
}

func TestAdaptiveOptionsDefaults(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	def := limit.AdaptiveOptions{
		Initial: 10, Min: 1, Max: 1000, Headroom: 0.1, MaxBaseline: 30 * time.Second, MaxRetryAfter: 10 * time.Second,
	}
	with := func(change func(o *limit.AdaptiveOptions)) limit.AdaptiveOptions {
		o := def
		change(&o)
		return o
	}
	for _, tt := range []struct{ o, want limit.AdaptiveOptions }{
		{limit.AdaptiveOptions{}, def},
		{limit.AdaptiveOptions{Min: 20}, with(func(o *limit.AdaptiveOptions) { o.Min, o.Initial = 20, 20 })},
		{limit.AdaptiveOptions{Max: 5}, with(func(o *limit.AdaptiveOptions) { o.Max, o.Initial = 5, 5 })},
		{limit.AdaptiveOptions{Min: 2000}, with(func(o *limit.AdaptiveOptions) { o.Min, o.Max, o.Initial = 2000, 2000, 2000 })},
		{limit.AdaptiveOptions{Initial: 3}, with(func(o *limit.AdaptiveOptions) { o.Initial = 3 })},
		{limit.AdaptiveOptions{Headroom: -1}, with(func(o *limit.AdaptiveOptions) { o.Headroom = 0 })},
		{limit.AdaptiveOptions{MaxBaseline: -1}, with(func(o *limit.AdaptiveOptions) { o.MaxBaseline = 0 })},
		{limit.AdaptiveOptions{Queue: -1}, with(func(o *limit.AdaptiveOptions) { o.Queue = -1 })},
		{limit.AdaptiveOptions{MaxWait: -1}, with(func(o *limit.AdaptiveOptions) { o.MaxWait = forever })},
		{limit.AdaptiveOptions{OverloadAfter: -1}, with(func(o *limit.AdaptiveOptions) { o.OverloadAfter = forever })},
		{limit.AdaptiveOptions{MaxRetryAfter: time.Minute}, with(func(o *limit.AdaptiveOptions) { o.MaxRetryAfter = time.Minute })},
		{limit.AdaptiveOptions{Name: "db", DryRun: true}, with(func(o *limit.AdaptiveOptions) { o.Name, o.DryRun = "db", true })},
	} {
		if got := tt.o.WithDefaults(); got != tt.want {
			t.Errorf("%+v with defaults = %+v; want %+v", tt.o, got, tt.want)
		}
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

// Options are rejected exactly when the documentation says that they are invalid, and
// limiters with valid options work.
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

func FuzzAdaptiveOptions(f *testing.F) {
	f.Add(0, 0, 0, 0.0, int64(0), 0, int64(0), int64(0))
	f.Add(1, 1, 1, 1.0, int64(1), 1, int64(1), int64(1))
	f.Add(10_000, 10_000, 10_000, -1.0, int64(-1), -1, int64(-1), int64(-1))
	f.Add(math.MinInt, math.MaxInt, 10_001, math.NaN(), int64(math.MinInt64), math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, initial, least, most int, headroom float64, baseline int64, queue int, maxWait, overloadAfter int64) {
		a, err := limit.NewAdaptive(limit.AdaptiveOptions{
			Initial: initial, Min: least, Max: most, Headroom: headroom, MaxBaseline: time.Duration(baseline),
			Queue: queue, MaxWait: time.Duration(maxWait), OverloadAfter: time.Duration(overloadAfter),
		})
		from, to := least, most
		if from == 0 {
			from = 1
		}
		if to == 0 {
			to = max(1000, from)
		}
		valid := from >= 1 && from <= 10_000 && to <= 10_000 && from <= to && headroom <= 1 &&
			(initial == 0 || initial >= from && initial <= to)
		if valid != (err == nil) {
			t.Fatalf("NewAdaptive = %v; want valid %t", err, valid)
		}
		if err != nil {
			return
		}
		for _, o := range []limit.Outcome{limit.Success, limit.Dropped, limit.Ignored, limit.Unused} {
			acquired(t, a, t.Context()).Release(o)
		}
		a.Check(t)
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
