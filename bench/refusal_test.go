package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// BenchmarkRefusal measures the cost of rejecting a caller: by a rate limit that is
// used up, by a concurrency limit whose queue is full, and by a Guard in front of
// that.
func BenchmarkRefusal(b *testing.B) {
	b.Run("lib=rate", func(b *testing.B) {
		r, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1e-3, Burst: 1, MaxWait: time.Nanosecond})
		if err != nil {
			b.Fatal(err)
		}
		occupy(b, r, 1)
		refuse(b, func(ctx context.Context) error {
			_, err := r.Acquire(ctx)
			return err
		})
	})
	b.Run("lib=concurrency", func(b *testing.B) {
		c := fullConcurrency(b)
		refuse(b, func(ctx context.Context) error {
			_, err := c.Acquire(ctx)
			return err
		})
	})
	b.Run("lib=weir", func(b *testing.B) {
		g, err := weir.New(func(context.Context, int) (*record, error) { return new(record), nil },
			weir.Options{TTL: ttl, Limiter: fullConcurrency(b)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { g.Close(context.Background()) })
		key := 0
		refuse(b, func(ctx context.Context) error {
			key++
			_, err := g.Get(ctx, key)
			return err
		})
	})
}

func refuse(b *testing.B, ask func(context.Context) error) {
	b.ReportAllocs()
	ctx := b.Context()
	for b.Loop() {
		if err := ask(ctx); !errors.Is(err, limit.ErrLimited) {
			b.Fatalf("err = %v; want a rejection", err)
		}
	}
}

// fullConcurrency returns a limiter with all permits taken and no queue.
func fullConcurrency(b *testing.B) *limit.Concurrency {
	const permits = 10
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: permits, Queue: -1})
	if err != nil {
		b.Fatal(err)
	}
	occupy(b, c, permits)
	return c
}

// occupy takes n permits until the end of the benchmark.
func occupy(b *testing.B, l limit.Limiter, n int) {
	for range n {
		p, err := l.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Release(limit.Ignored) })
	}
}
