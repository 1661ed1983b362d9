package quota_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// generous is an engine without latency that grants every request.
type generous struct{}

func (generous) Take(_ context.Context, _ fleet.Key, _ fleet.Rate, n int) (fleet.Taken, error) {
	return fleet.Taken{Permits: n}, nil
}

// empty is an engine that has no permits for an hour.
type empty struct{}

func (empty) Take(context.Context, fleet.Key, fleet.Rate, int) (fleet.Taken, error) {
	return fleet.Taken{RetryAfter: time.Hour}, nil
}

// large returns terms with batches large enough for a benchmark's demand.
func large() quota.Terms {
	return quota.Terms{
		Rate:      fleet.Rate{Permits: 1 << 30, Per: time.Second, Burst: 1 << 30},
		OnFailure: quota.FailClosed,
	}
}

func benchLimiter(b testing.TB, m fleet.Meter, terms quota.Terms) *quota.Limiter {
	l, err := quota.NewLimiter(m, quota.LimiterOptions{Terms: terms, Key: fleet.Key{Name: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func BenchmarkLimiter(b *testing.B) {
	ctx := context.Background()
	b.Run("leased", func(b *testing.B) {
		l := benchLimiter(b, generous{}, large())
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Acquire(ctx); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(l.Stats().Takes)/float64(l.Stats().Admitted), "takes/op")
	})
	b.Run("leased parallel", func(b *testing.B) {
		l := benchLimiter(b, generous{}, large())
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Acquire(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("refused", func(b *testing.B) {
		l := benchLimiter(b, empty{}, api())
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.TryAcquire(ctx); err == nil {
				b.Fatal("admitted")
			}
		}
	})
	b.Run("not batched", func(b *testing.B) { // the rejected alternative, without the network
		terms := large()
		terms.MaxBatch = 1
		l := benchLimiter(b, generous{}, terms)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Acquire(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("package limit", func(b *testing.B) { // for comparison: not shared with other instances
		l, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1 << 30, Burst: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Acquire(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkKeyed(b *testing.B) {
	k, err := quota.NewKeyedLimiter(generous{}, quota.KeyedLimiterOptions{Terms: large()})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close(context.Background())
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if err := k.Allow(context.Background(), keys[i/100%len(keys)]); err != nil {
				b.Error(err)
			}
		}
	})
}

// With a permit in stock nothing is allocated; a refusal allocates only its error.
func TestLimiterAllocations(t *testing.T) {
	ctx := context.Background()
	terms := large()
	terms.Lease = 500 * time.Millisecond
	l := benchLimiter(t, generous{}, terms)
	k, err := quota.NewKeyedLimiter(generous{}, quota.KeyedLimiterOptions{Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close(context.Background())
	none := benchLimiter(t, empty{}, api())
	for _, row := range []struct {
		name string
		call func() error
		want float64
	}{
		{"Limiter.Acquire", func() error { _, err := l.Acquire(ctx); return err }, 0},
		{"KeyedLimiter.Allow", func() error { return k.Allow(ctx, "client") }, 0},
		{"a refusal", func() error {
			if _, err := none.TryAcquire(ctx); !errors.Is(err, limit.ErrLimited) {
				return errors.New("admitted")
			}
			return nil
		}, 1},
	} {
		for range 5000 { // until the batches are large
			if err := row.call(); err != nil {
				t.Fatal(err)
			}
		}
		got := testing.AllocsPerRun(1000, func() {
			if err := row.call(); err != nil {
				t.Error(err)
			}
		})
		if got > row.want {
			t.Errorf("%s allocates %v times; want %v", row.name, got, row.want)
		}
	}
}
